// Put before llama.cpp's AMX kernels: GCC 12 declares _tile_loadconfig as reading 8 of its 64 bytes and drops the stores to the others.
#pragma once

#include <immintrin.h>

#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
static inline void peer_tile_loadconfig(const void * config) {
    __asm__ volatile("ldtilecfg\t%0" : : "m"(*static_cast<const char (*)[64]>(config)));
}
#undef _tile_loadconfig
#define _tile_loadconfig peer_tile_loadconfig
#endif
