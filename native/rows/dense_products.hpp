// Products of a few dense rows with vectors, in registers.
#pragma once

#include "rows/dense_rows.hpp"

namespace mercer::MERCER_ISA {

constexpr int kRows = 8;  // rows at a time
struct WithVectors {
    const double* vectors;
    int64_t stride;

    MERCER_INLINE Vec factor(Vec, int k, int64_t j) const { return load(vectors + k * stride + j); }
};

// out[r][k] = product of row r and factor k.
template <int kHeight, int kVectors, class Number, class Factors>
MERCER_INLINE void multiply_rows(const DenseRows<Number>& shape, const Number* const* rows, const Factors& factors,
                                 double* out) {
    constexpr int kSums = kHeight * kVectors;
    static_assert(kSums % kLanes == 0);
    Vec sums[kSums];
#pragma GCC unroll 32
    for (Vec& sum : sums) sum = Vec{};
    auto add = [&](int64_t j, auto read) MERCER_LAMBDA_INLINE {
#pragma GCC unroll 8
        for (int r = 0; r < kHeight; ++r) {
            const Vec x = read(rows[r]);
#pragma GCC unroll 4
            for (int k = 0; k < kVectors; ++k)
                sums[r * kVectors + k] = multiply_add(x, factors.factor(x, k, j), sums[r * kVectors + k]);
        }
    };
    const int64_t n_whole = shape.n_whole();
    for (int64_t j = 0; j < n_whole; j += kLanes)
        add(j, [j](const Number* row) MERCER_LAMBDA_INLINE { return load_numbers(row + j); });
    if (n_whole < shape.n_columns)
        add(n_whole, [&shape](const Number* row) MERCER_LAMBDA_INLINE { return shape.tail(row); });
#pragma GCC unroll 16
    for (int s = 0; s < kSums; s += kLanes) {
        turn<double>(sums + s);
#pragma GCC unroll 4
        for (int half = kLanes / 2; half > 0; half /= 2)
#pragma GCC unroll 8
            for (int lane = 0; lane < half; ++lane) sums[s + lane] += sums[s + lane + half];
        store(out + s, sums[s]);
    }
}

}  // namespace mercer::MERCER_ISA
