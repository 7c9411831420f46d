// A sum in independent chains, because an addition waits for the previous one in its chain.
#pragma once

#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

template <int kCount>
MERCER_INLINE double pairwise_sum(const double* terms) {
    if constexpr (kCount == 1)
        return terms[0];
    else
        return pairwise_sum<kCount / 2>(terms) + pairwise_sum<kCount / 2>(terms + kCount / 2);
}

// term(0) + ... + term(count - 1), in kChains partial sums; kChains is a power of 2.
template <int kChains, class Term>
MERCER_INLINE double chained_sum(int64_t count, Term term) {
    double sums[kChains] = {};
    int64_t at = 0;
    for (; at + kChains <= count; at += kChains)
#pragma GCC unroll 8
        for (int c = 0; c < kChains; ++c) sums[c] += term(at + c);
    for (; at < count; ++at) sums[0] += term(at);
    return pairwise_sum<kChains>(sums);
}

}  // namespace mercer::MERCER_ISA
