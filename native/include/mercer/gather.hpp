// Elements of kept rows: out[i][j] = kept[slots[i]][columns[j]].
#pragma once

#include <cstdint>

namespace mercer {

struct KeptRows {
    const double* values;
    int64_t stride;
    const int64_t* slots;
    int64_t n_slots;
    const int64_t* columns;
    int64_t n_columns;
};

void gather(const KeptRows&, double* out, int64_t out_stride, int n_threads);
void gather(const KeptRows&, float* out, int64_t out_stride, int n_threads);

// out[j] += sum_i weights[i] kept[slots[i]][columns[j]], in the order of the slots for every j.
void combine(const KeptRows&, const double* weights, double* out, int n_threads);

}  // namespace mercer
