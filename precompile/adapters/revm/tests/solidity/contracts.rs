//! The example contracts as their users see them, written anew.

use alloy_sol_types::sol;

sol! {
    #[sol(all_derives)]
    interface Oracle {
        error TooLittleGas(uint256 needed, uint256 left);
        error ModelChanged(uint16 refusal);
        error QuestionRefused(uint16 refusal);
        error NoInference();
        event Answered(uint256 indexed id, address indexed asker, uint32[] prompt, uint32[] tokens, bool complete);
        function ask(uint32[] prompt, uint32 maxNewTokens) external returns (uint256 id);
        function priceOf(uint256 promptTokens, uint32 maxNewTokens) external view returns (uint64 price);
        function gasToAsk(uint256 promptTokens, uint32 maxNewTokens) external view returns (uint256);
        function answerOf(uint256 id) external view returns (address asker, bool complete, uint32[] tokens);
        function count() external view returns (uint256);
    }

    #[sol(all_derives)]
    interface VerifiedOracle {
        struct Question {
            address asker;
            uint64 lastBlock;
            uint32 maxNewTokens;
            uint8 status;
            address answerer;
            uint256 reward;
            uint32[] prompt;
            uint32[] answer;
        }
        error NotPinned();
        error NotOpen(uint256 id);
        error NotAnswerer(address answerer);
        error WrongAnswer(uint256 id);
        error NotYours(address asker);
        error TooEarly(uint64 lastBlock);
        error TooLittleGas(uint256 needed, uint256 left);
        error ModelChanged(uint16 refusal);
        error QuestionRefused(uint16 refusal);
        error NoInference();
        event Asked(uint256 indexed id, address indexed asker, uint32[] prompt, uint32 maxNewTokens, uint256 reward);
        event Answered(uint256 indexed id, address indexed answerer, uint32[] answer);
        event TakenBack(uint256 indexed id);
        function ask(uint32[] prompt, uint32 maxNewTokens, address answerer) external payable returns (uint256 id);
        function submit(uint256 id, uint32[] output) external;
        function takeBack(uint256 id) external;
        function withdraw() external;
        function questionOf(uint256 id) external view returns (Question);
        function owed(address account) external view returns (uint256);
    }

    interface Names {
        function nameOf(string model, uint64 version, bytes32 commitment, string quantisation) external pure returns (bytes32);
        function isActive(string model, uint64 version, bytes32 commitment, string quantisation) external view returns (bool);
    }
}
