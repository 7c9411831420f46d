// Adds the upper triangles of matrices to both triangles of a symmetric matrix.
#pragma once

#include "parallel/parallel.hpp"
#include "rows/threads.hpp"

namespace mercer::MERCER_ISA {

// Adds the upper triangles of matrices of `width` columns, `distance` apart, to both triangles of the result.
struct MirrorJob {
    double* gram;  // q x q
    int64_t q;
    const double* grams;
    int64_t count, distance, width;
};

inline void mirror_task(void* context, int64_t j) {
    const auto& job = *static_cast<const MirrorJob*>(context);
    const int64_t q = job.q;
    for (int64_t l = j; l < q; ++l) {
        double total = 0.0;
        for (int64_t g = 0; g < job.count; ++g) total += job.grams[g * job.distance + j * job.width + l];
        job.gram[j * q + l] += total;
        if (l != j) job.gram[l * q + j] += total;
    }
}

inline void add_mirrored(MirrorJob job, int n_threads) {
    parallel_for(job.q, threads_for(job.q * job.q * job.count, n_threads), mirror_task, &job);
}

}  // namespace mercer::MERCER_ISA
