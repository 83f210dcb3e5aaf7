// Prefill and decode times of llama.cpp on one GGUF file. See ../README.md for the protocol and what is measured.

#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string model;
    int threads = 1;
    std::vector<int> prefill;
    std::vector<int> contexts = {0};
    int decode = 0;
    int repeat = 1;
    int max_context = 2560;
    llama_flash_attn_type flash_attn = LLAMA_FLASH_ATTN_TYPE_AUTO;
    bool mmap = true;
    bool repack = true;
    bool serve = false;
    // Where to write the model as Q8_0, instead of measuring.
    std::string quantize;
};

std::string quoted(const std::string & text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", c);
            out += escape;
        } else {
            out += c;
        }
    }
    return out + '"';
}

int integer(const std::string & text, int low, int high) {
    size_t used = 0;
    long value = 0;
    try {
        value = std::stol(text, &used);
    } catch (const std::exception &) {
        used = 0;
    }
    if (used == 0 || used != text.size() || value < low || value > high) {
        throw std::runtime_error("'" + text + "' is not an integer from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return static_cast<int>(value);
}

std::vector<int> integers(const std::string & text, int low, int high) {
    std::vector<int> values;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        values.push_back(integer(part, low, high));
    }
    return values;
}

Options parse(int argc, char ** argv) {
    constexpr int many = 1 << 20;
    Options o;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name == "--serve") {
            o.serve = true;
            continue;
        }
        if (i + 1 == argc) {
            throw std::runtime_error(name + " needs a value or is not known");
        }
        const std::string value = argv[++i];
        if (name == "--model") {
            o.model = value;
        } else if (name == "--threads") {
            o.threads = integer(value, 1, 1024);
        } else if (name == "--prefill") {
            o.prefill = integers(value, 1, many);
        } else if (name == "--decode") {
            o.decode = integer(value, 1, many);
        } else if (name == "--context") {
            o.contexts = integers(value, 0, many);
        } else if (name == "--repeat") {
            o.repeat = integer(value, 1, many);
        } else if (name == "--max-context") {
            o.max_context = integer(value, 256, many);
        } else if (name == "--flash-attn" && (value == "on" || value == "off" || value == "auto")) {
            o.flash_attn = value == "on"    ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                           : value == "off" ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                            : LLAMA_FLASH_ATTN_TYPE_AUTO;
        } else if (name == "--quantize-q8_0") {
            o.quantize = value;
        } else if (name == "--repack" && (value == "on" || value == "off")) {
            o.repack = value == "on";
        } else if (name == "--mmap" && (value == "on" || value == "off")) {
            o.mmap = value == "on";
        } else {
            throw std::runtime_error("unknown option " + name + " " + value);
        }
    }
    if (o.model.empty()) {
        throw std::runtime_error("--model FILE is required");
    }
    return o;
}

void quantize(const Options & o) {
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.nthread = o.threads;
    params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
    params.allow_requantize = true;
    if (llama_model_quantize(o.model.c_str(), o.quantize.c_str(), &params) != 0) {
        throw std::runtime_error("cannot write " + o.model + " as Q8_0 to " + o.quantize);
    }
}

class Engine {
  public:
    explicit Engine(const Options & o) : max_context_(o.max_context) {
        const auto start = Clock::now();
        llama_model_params model = llama_model_default_params();
        model.n_gpu_layers = 0;
        model.load_mode = o.mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
        model.use_extra_bufts = o.repack;
        model_ = llama_model_load_from_file(o.model.c_str(), model);
        if (model_ == nullptr) {
            throw std::runtime_error("cannot load " + o.model);
        }
        llama_context_params context = llama_context_default_params();
        context.n_ctx = static_cast<uint32_t>(o.max_context);
        context.n_batch = context.n_ctx;
        context.n_ubatch = 512;
        context.n_threads = o.threads;
        context.n_threads_batch = o.threads;
        context.flash_attn_type = o.flash_attn;
        context.type_k = GGML_TYPE_F16;
        context.type_v = GGML_TYPE_F16;
        context_ = llama_init_from_model(model_, context);
        if (context_ == nullptr) {
            throw std::runtime_error("cannot make a context for " + o.model);
        }
        vocab_ = llama_vocab_n_tokens(llama_model_get_vocab(model_));
        if (vocab_ <= 0) {
            throw std::runtime_error(o.model + " has no tokens");
        }
        load_seconds_ = since(start);
    }

    ~Engine() {
        llama_free(context_);
        llama_model_free(model_);
    }

    Engine(const Engine &) = delete;
    Engine & operator=(const Engine &) = delete;

    double load_seconds() const { return load_seconds_; }

    // Seconds to process `tokens` tokens in an empty context, with the logits of the last.
    double prefill(int tokens) {
        fits(tokens);
        llama_memory_clear(llama_get_memory(context_), false);
        cached_ = 0;
        const auto start = Clock::now();
        extend(tokens);
        return since(start);
    }

    // Seconds to decode `tokens` tokens one by one after `context` tokens, each the most likely successor of the one before.
    double decode(int context, int tokens) {
        fits(context + tokens);
        llama_memory_t memory = llama_get_memory(context_);
        cached_ = std::min(cached_, context);
        if (!llama_memory_seq_rm(memory, 0, cached_, -1)) {
            llama_memory_clear(memory, false);
            cached_ = 0;
        }
        if (cached_ < context) {
            extend(context);
        }
        llama_token next = token_at(context);
        const auto start = Clock::now();
        for (int i = 0; i < tokens; i++) {
            feed(&next, 1);
            next = argmax();
        }
        return since(start);
    }

  private:
    static double since(Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    }

    void fits(int tokens) const {
        if (tokens > max_context_) {
            throw std::runtime_error(std::to_string(tokens) + " tokens exceed --max-context " + std::to_string(max_context_));
        }
    }

    // The token of a position: SplitMix64 (Steele, Lea, Flood 2014) of the position, reduced to the vocabulary.
    llama_token token_at(int position) const {
        uint64_t z = (static_cast<uint64_t>(position) + 1) * 0x9E3779B97F4A7C15U;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        z ^= z >> 31;
        return static_cast<llama_token>(z % static_cast<uint64_t>(vocab_));
    }

    void feed(llama_token * tokens, int count) {
        if (llama_decode(context_, llama_batch_get_one(tokens, count)) != 0) {
            throw std::runtime_error("llama_decode failed");
        }
        llama_synchronize(context_);
    }

    // Processes the fixed tokens of positions `cached_` to `end`.
    void extend(int end) {
        std::vector<llama_token> tokens;
        for (int i = cached_; i < end; i++) {
            tokens.push_back(token_at(i));
        }
        feed(tokens.data(), static_cast<int>(tokens.size()));
        cached_ = end;
    }

    llama_token argmax() {
        const float * logits = llama_get_logits_ith(context_, -1);
        return static_cast<llama_token>(std::max_element(logits, logits + vocab_) - logits);
    }

    llama_model * model_ = nullptr;
    llama_context * context_ = nullptr;
    int vocab_ = 0;
    int max_context_;
    // How many leading positions of the cache hold the fixed tokens.
    int cached_ = 0;
    double load_seconds_ = 0.0;
};

std::string number(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9f", seconds);
    return text;
}

std::string header(const Options & o, const Engine & engine) {
    return "\"engine\":\"llama.cpp\",\"version\":" + quoted(PEER_VERSION) + ",\"build\":" +
           quoted(std::string(PEER_BUILD) + "; " + llama_print_system_info()) + ",\"model\":" + quoted(o.model) +
           ",\"threads\":" + std::to_string(o.threads) + ",\"flash_attn\":" +
           quoted(llama_flash_attn_type_name(o.flash_attn)) + ",\"mmap\":" + (o.mmap ? "true" : "false") + ",\"repack\":" +
           (o.repack ? "true" : "false") + ",\"load_seconds\":" + number(engine.load_seconds());
}

// Runs one request, `prefill TOKENS` or `decode CONTEXT TOKENS`, and gives its sample.
std::string sample(Engine & engine, const std::string & line) {
    constexpr int many = 1 << 20;
    std::stringstream words(line);
    std::vector<std::string> w;
    for (std::string word; words >> word;) {
        w.push_back(word);
    }
    if (w.size() == 2 && w[0] == "prefill") {
        const int tokens = integer(w[1], 1, many);
        return "{\"kind\":\"prefill\",\"tokens\":" + std::to_string(tokens) + ",\"seconds\":" + number(engine.prefill(tokens)) + "}";
    }
    if (w.size() == 3 && w[0] == "decode") {
        const int context = integer(w[1], 0, many);
        const int tokens = integer(w[2], 1, many);
        return "{\"kind\":\"decode\",\"context\":" + std::to_string(context) + ",\"tokens\":" + std::to_string(tokens) +
               ",\"seconds\":" + number(engine.decode(context, tokens)) + "}";
    }
    throw std::runtime_error("expected 'prefill TOKENS' or 'decode CONTEXT TOKENS', found '" + line + "'");
}

void serve(Engine & engine, const std::string & head) {
    std::cout << "{" << head << "}" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        std::string answer;
        try {
            answer = sample(engine, line);
        } catch (const std::exception & e) {
            answer = "{\"error\":" + quoted(e.what()) + "}";
        }
        // The OpenMP workers spin for some milliseconds after the last graph: whoever runs next finds the cores idle.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::cout << answer << std::endl;
    }
}

void batch(Engine & engine, const Options & o, const std::string & head) {
    std::vector<std::string> requests;
    for (const int tokens : o.prefill) {
        requests.push_back("prefill " + std::to_string(tokens));
    }
    if (o.decode > 0) {
        for (const int context : o.contexts) {
            requests.push_back("decode " + std::to_string(context) + " " + std::to_string(o.decode));
        }
    }
    std::cout << "{" << head << ",\"samples\":[";
    for (int i = 0; i < o.repeat; i++) {
        for (const std::string & request : requests) {
            const std::string answer = sample(engine, request);
            std::cout << (i == 0 && &request == &requests.front() ? "" : ",") << answer << std::flush;
        }
    }
    std::cout << "]}" << std::endl;
}

}  // namespace

int main(int argc, char ** argv) {
    try {
        const Options o = parse(argc, argv);
        llama_log_set([](ggml_log_level level, const char * text, void *) {
            if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) {
                std::fputs(text, stderr);
            }
        }, nullptr);
        llama_backend_init();
        if (!o.quantize.empty()) {
            quantize(o);
            return 0;
        }
        Engine engine(o);
        engine.prefill(std::min(128, o.max_context));
        engine.decode(0, 8);
        const std::string head = header(o, engine);
        if (o.serve) {
            serve(engine, head);
        } else {
            batch(engine, o, head);
        }
    } catch (const std::exception & e) {
        std::cerr << "blue-peer-llama: " << e.what() << std::endl;
        return 1;
    }
    return 0;
}
