// Adds the upper triangles of matrices to both triangles of a symmetric matrix.
#pragma once

#include "linear/sweeps.hpp"
#include "linear/threads.hpp"
#include "parallel/parallel.hpp"

namespace mercer::MERCER_ISA {

// Adds the upper triangles of matrices of `width` columns, `distance` apart, to both triangles of the result.
struct MirrorJob {
    const WeightedSums& request;
    const double* grams;
    int64_t count, distance, width;
};

inline void mirror_task(void* context, int64_t j) {
    const auto& job = *static_cast<const MirrorJob*>(context);
    const int64_t q = job.request.table.width();
    for (int64_t l = j; l < q; ++l) {
        double total = 0.0;
        for (int64_t g = 0; g < job.count; ++g) total += job.grams[g * job.distance + j * job.width + l];
        job.request.gram[j * q + l] += total;
        if (l != j) job.request.gram[l * q + j] += total;
    }
}

inline void add_mirrored(MirrorJob job, int n_threads) {
    const int64_t q = job.request.table.width();
    parallel_for(q, threads_for(q * q * job.count, n_threads), mirror_task, &job);
}

}  // namespace mercer::MERCER_ISA
