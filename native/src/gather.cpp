#include "mercer/gather.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "mercer/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kColumnsAtATime = 64;
constexpr int64_t kColumnsAhead = 24;
constexpr int64_t kAskedApart = 4;  // of 16 rows that lie side by side or some way apart

template <class Kept, class Real>
struct GatherJob {
    const KeptRows<Kept>& kept;
    Real* out;
    int64_t out_stride;
};

template <class Kept, class Real>
void gather_task(void* context, int64_t task) {
    const auto& job = *static_cast<const GatherJob<Kept, Real>*>(context);
    const int64_t last = std::min((task + 1) * kRowsPerTask, job.kept.n_slots);
    for (int64_t i = task * kRowsPerTask; i < last; ++i) {
        if (job.kept.slots[i] < 0) continue;
        const Kept* row = job.kept.values + job.kept.slots[i] * job.kept.stride;
        Real* out = job.out + i * job.out_stride;
        if (job.kept.columns == nullptr)
            for (int64_t j = 0; j < job.kept.n_columns; ++j) out[j] = static_cast<Real>(row[j]);
        else
            for (int64_t j = 0; j < job.kept.n_columns; ++j) out[j] = static_cast<Real>(row[job.kept.columns[j]]);
    }
}

struct CompleteJob {
    const SymmetricMatrix& matrix;
    const int64_t* missing;
    int64_t n_missing;
    const float* square;
    int64_t square_stride;
    std::vector<int64_t> place;  // of a variable among the missing ones, -1 if it is not
};

void complete_task(void* context, int64_t task) {
    const auto& job = *static_cast<const CompleteJob*>(context);
    const int64_t first = task * kRowsPerTask, n = std::min(kRowsPerTask, job.n_missing - first);
    const int64_t* missing = job.missing + first;
    float turned[kRowsPerTask][kColumnsAtATime];  // rows of the matrix may all fall into the same places of the cache
    for (int64_t left = 0; left < job.matrix.size; left += kColumnsAtATime) {
        const int64_t width = std::min(kColumnsAtATime, job.matrix.size - left);
        for (int64_t c = 0; c < width; ++c) {  // columns outside: a cache line of row j serves several rows
            const float* column = job.matrix.values + (left + c) * job.matrix.stride;
            if (left + c + kColumnsAhead < job.matrix.size) {  // which no processor foresees
                const float* far = column + kColumnsAhead * job.matrix.stride;
                for (int64_t a = 0; a < n; a += kAskedApart) __builtin_prefetch(far + missing[a]);
                __builtin_prefetch(far + missing[n - 1]);
            }
            const int64_t b = job.place[static_cast<std::size_t>(left + c)];
            if (b < 0)
                for (int64_t a = 0; a < n; ++a) turned[a][c] = column[missing[a]];
            else
                for (int64_t a = 0; a < n; ++a) turned[a][c] = job.square[(first + a) * job.square_stride + b];
        }
        for (int64_t a = 0; a < n; ++a)
            std::copy_n(turned[a], width, job.matrix.values + missing[a] * job.matrix.stride + left);
    }
}

}  // namespace

void complete(const SymmetricMatrix& matrix, const int64_t* missing, int64_t n_missing, const float* square,
              int64_t square_stride, int n_threads) {
    std::vector<int64_t> place(static_cast<std::size_t>(matrix.size), -1);
    for (int64_t a = 0; a < n_missing; ++a) place[static_cast<std::size_t>(missing[a])] = a;
    CompleteJob job{matrix, missing, n_missing, square, square_stride, std::move(place)};
    parallel_for((n_missing + kRowsPerTask - 1) / kRowsPerTask, n_threads, complete_task, &job);
}

void scatter(const KeptRows<float>& kept, const int64_t* places, float* out, int64_t out_stride) {
    for (int64_t i = kept.n_slots - 1; i >= 0; --i) {
        const float* row = kept.values + kept.slots[i] * kept.stride;
        float* to = out + i * out_stride;
        for (int64_t j = kept.n_columns - 1; j >= 0; --j) to[places[j]] = row[j];
    }
}

template <class Kept, class Real>
void gather(const KeptRows<Kept>& kept, Real* out, int64_t out_stride, int n_threads) {
    GatherJob<Kept, Real> job{kept, out, out_stride};
    parallel_for((kept.n_slots + kRowsPerTask - 1) / kRowsPerTask, n_threads, gather_task<Kept, Real>, &job);
}

template void gather(const KeptRows<double>&, double*, int64_t, int);
template void gather(const KeptRows<double>&, float*, int64_t, int);
template void gather(const KeptRows<float>&, double*, int64_t, int);
template void gather(const KeptRows<float>&, float*, int64_t, int);

}  // namespace mercer
