// Weighted sums of cached rows.
#pragma once

#include "gram/gather.hpp"

namespace mercer {

struct Sums {
    const double* weights;  // n_outputs x n_slots
    double* out;            // n_outputs x n_columns
    int64_t n_outputs;
};

// out[k][j] += sum_i weights[k][i] kept[slots[i]][columns[j]]. The order of summation depends only on the slots.
template <class Cached>
using Combine = void (*)(const CachedRows<Cached>&, const Sums&, int n_threads);

namespace baseline {
void combine(const CachedRows<double>&, const Sums&, int);
void combine_single(const CachedRows<float>&, const Sums&, int);
}  // namespace baseline
namespace avx2 {
void combine(const CachedRows<double>&, const Sums&, int);
void combine_single(const CachedRows<float>&, const Sums&, int);
}  // namespace avx2
namespace avx512 {
void combine(const CachedRows<double>&, const Sums&, int);
void combine_single(const CachedRows<float>&, const Sums&, int);
}  // namespace avx512

}  // namespace mercer
