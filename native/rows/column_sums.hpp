// Weighted sums of a few dozen rows, column by column.
#pragma once

#include "rows/dense_rows.hpp"

namespace mercer::MERCER_ISA {

// Vectors of columns, and sums for each, that are added in registers.
#if defined(__AVX512F__)
constexpr int kMostColumnVectors = 8, kColumnVectorsOfMany = 4, kSumsOfMany = 4;
#else
constexpr int kMostColumnVectors = 8, kColumnVectorsOfMany = 2, kSumsOfMany = 4;
#endif

// sums[k][j] += sum_i weights[i][k] rows[i][j] for kSums sums and kVectors vectors of columns. Few sums are divided
// into several chains, because an addition waits for the previous one in its chain.
template <int kSums, int kVectors, class Number>
MERCER_INLINE void add_columns(const Number* const* rows, int64_t count, int64_t j, const double* weights,
                               int64_t weight_stride, double* sums, int64_t stride) {
    constexpr int kEach = kSums * kVectors, kChains = kEach >= 4 ? 1 : 4 / kEach;
    Vec totals[kChains][kSums][kVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c)
#pragma GCC unroll 4
        for (int k = 0; k < kSums; ++k)
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v)
                totals[c][k][v] = c == 0 ? load(sums + k * stride + j + v * kLanes) : Vec{};
    auto add = [&](int64_t i, int c) MERCER_LAMBDA_INLINE {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            const Vec x = load_numbers(rows[i] + j + v * kLanes);
#pragma GCC unroll 4
            for (int k = 0; k < kSums; ++k)
                totals[c][k][v] = multiply_add(broadcast_from(weights + i * weight_stride + k), x, totals[c][k][v]);
        }
    };
    int64_t i = 0;
    for (; i + kChains <= count; i += kChains)
#pragma GCC unroll 4
        for (int c = 0; c < kChains; ++c) add(i + c, c);
    for (; i < count; ++i) add(i, 0);
#pragma GCC unroll 4
    for (int k = 0; k < kSums; ++k)
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            Vec total = totals[0][k][v];
#pragma GCC unroll 4
            for (int c = 1; c < kChains; ++c) total += totals[c][k][v];
            store(sums + k * stride + j + v * kLanes, total);
        }
}

// The same for all columns, n_padded of them.
template <int kSums, int kMost, class Number>
void add_all_columns(const Number* const* rows, int64_t count, int64_t n_padded, const double* weights,
                     int64_t weight_stride, double* sums) {
    int64_t j = 0;
    for (; j + kMost * kLanes <= n_padded; j += kMost * kLanes)
        add_columns<kSums, kMost>(rows, count, j, weights, weight_stride, sums, n_padded);
    if constexpr (kMost > 1) {
        auto rest = [&]<int kVectors>(auto self) {
            if ((n_padded - j) / kLanes == kVectors)
                add_columns<kSums, kVectors>(rows, count, j, weights, weight_stride, sums, n_padded);
            else if constexpr (kVectors > 1)
                self.template operator()<kVectors - 1>(self);
        };
        rest.template operator()<kMost - 1>(rest);
    }
}

// sums[k][j] += sum_i weights[i][k] rows[i][j] for all k and j.
template <class Number>
void add_rows(const Number* const* rows, int64_t count, int64_t n_padded, const double* weights, int64_t n_sums,
              double* sums) {
    int64_t k = 0;
    for (; k + kSumsOfMany <= n_sums; k += kSumsOfMany)
        add_all_columns<kSumsOfMany, kColumnVectorsOfMany>(rows, count, n_padded, weights + k, n_sums,
                                                           sums + k * n_padded);
    for (; k < n_sums; ++k)
        add_all_columns<1, kMostColumnVectors>(rows, count, n_padded, weights + k, n_sums, sums + k * n_padded);
}

}  // namespace mercer::MERCER_ISA
