// How many threads share a sweep.
#pragma once

#include <cstdint>

namespace mercer::MERCER_ISA {

// Multiplications up to which one thread is faster than two: about 30 microseconds of work.
constexpr int64_t kOneThreadWork = int64_t{1} << 18;

constexpr int threads_for(int64_t work, int n_threads) { return work <= kOneThreadWork ? 1 : n_threads; }

}  // namespace mercer::MERCER_ISA
