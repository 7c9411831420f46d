#include "mercer/gather.hpp"

#include <algorithm>

#include "mercer/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kColumnsPerTask = 1024;

template <class Real>
struct GatherJob {
    const KeptRows& kept;
    Real* out;
    int64_t out_stride;
};

template <class Real>
void gather_task(void* context, int64_t task) {
    const auto& job = *static_cast<const GatherJob<Real>*>(context);
    const int64_t last = std::min((task + 1) * kRowsPerTask, job.kept.n_slots);
    for (int64_t i = task * kRowsPerTask; i < last; ++i) {
        const double* row = job.kept.values + job.kept.slots[i] * job.kept.stride;
        Real* out = job.out + i * job.out_stride;
        for (int64_t j = 0; j < job.kept.n_columns; ++j) out[j] = static_cast<Real>(row[job.kept.columns[j]]);
    }
}

template <class Real>
void run_gather(const KeptRows& kept, Real* out, int64_t out_stride, int n_threads) {
    GatherJob<Real> job{kept, out, out_stride};
    parallel_for((kept.n_slots + kRowsPerTask - 1) / kRowsPerTask, n_threads, gather_task<Real>, &job);
}

struct CombineJob {
    const KeptRows& kept;
    const double* weights;
    double* out;
};

void combine_task(void* context, int64_t task) {
    const auto& job = *static_cast<const CombineJob*>(context);
    const int64_t first = task * kColumnsPerTask, last = std::min(first + kColumnsPerTask, job.kept.n_columns);
    for (int64_t i = 0; i < job.kept.n_slots; ++i) {
        const double* row = job.kept.values + job.kept.slots[i] * job.kept.stride;
        const double weight = job.weights[i];
        for (int64_t j = first; j < last; ++j) job.out[j] += weight * row[job.kept.columns[j]];
    }
}

}  // namespace

void gather(const KeptRows& kept, double* out, int64_t out_stride, int n_threads) {
    run_gather(kept, out, out_stride, n_threads);
}

void gather(const KeptRows& kept, float* out, int64_t out_stride, int n_threads) {
    run_gather(kept, out, out_stride, n_threads);
}

void combine(const KeptRows& kept, const double* weights, double* out, int n_threads) {
    CombineJob job{kept, weights, out};
    parallel_for((kept.n_columns + kColumnsPerTask - 1) / kColumnsPerTask, n_threads, combine_task, &job);
}

}  // namespace mercer
