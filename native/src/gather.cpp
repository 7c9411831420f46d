#include "mercer/gather.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "mercer/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kRowsMoved = 256;  // at a time: they stay in the second cache
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

template <class Real>
struct MoveJob {
    const Real* from;
    Real* to;
    int64_t stride, n_columns, n_rows;
};

template <class Real>
void move_task(void* context, int64_t task) {
    const auto& job = *static_cast<const MoveJob<Real>*>(context);
    const int64_t last = std::min((task + 1) * kRowsPerTask, job.n_rows);
    for (int64_t i = task * kRowsPerTask; i < last; ++i)
        std::copy_n(job.from + i * job.n_columns, job.n_columns, job.to + i * job.stride);
}

struct CompleteJob {
    const SymmetricMatrix& matrix;
    const int64_t* missing;
    int64_t n_missing;
    const float* square;
    int64_t square_stride;
    std::vector<int64_t> known;  // all variables that are not missing
};

void complete_task(void* context, int64_t task) {
    const auto& job = *static_cast<const CompleteJob*>(context);
    const int64_t first = task * kRowsPerTask, n = std::min(kRowsPerTask, job.n_missing - first);
    const int64_t* missing = job.missing + first;
    const auto n_known = static_cast<int64_t>(job.known.size());
    float turned[kRowsPerTask][kColumnsAtATime];  // rows of the matrix may all fall into the same places of the cache
    for (int64_t left = 0; left < n_known; left += kColumnsAtATime) {
        const int64_t* columns = job.known.data() + left;
        const int64_t width = std::min(kColumnsAtATime, n_known - left);
        for (int64_t c = 0; c < width; ++c) {  // columns outside: a cache line of row j serves several rows
            const float* column = job.matrix.values + columns[c] * job.matrix.stride;
            if (left + c + kColumnsAhead < n_known) {  // which no processor foresees
                const float* far = job.matrix.values + columns[c + kColumnsAhead] * job.matrix.stride;
                for (int64_t a = 0; a < n; a += kAskedApart) __builtin_prefetch(far + missing[a]);
                __builtin_prefetch(far + missing[n - 1]);
            }
            for (int64_t a = 0; a < n; ++a) turned[a][c] = column[missing[a]];
        }
        for (int64_t a = 0; a < n; ++a) {
            float* row = job.matrix.values + missing[a] * job.matrix.stride;
            for (int64_t c = 0; c < width; ++c) row[columns[c]] = turned[a][c];
        }
    }
    for (int64_t a = 0; a < n; ++a) {
        float* row = job.matrix.values + missing[a] * job.matrix.stride;
        const float* values = job.square + (first + a) * job.square_stride;
        for (int64_t b = 0; b < job.n_missing; ++b) row[job.missing[b]] = values[b];
    }
}

}  // namespace

void complete(const SymmetricMatrix& matrix, const int64_t* missing, int64_t n_missing, const float* square,
              int64_t square_stride, int n_threads) {
    std::vector<int64_t> known;
    known.reserve(static_cast<std::size_t>(matrix.size - n_missing));
    for (int64_t j = 0, a = 0; j < matrix.size; ++j)
        if (a < n_missing && missing[a] == j)
            ++a;
        else
            known.push_back(j);
    CompleteJob job{matrix, missing, n_missing, square, square_stride, std::move(known)};
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

template <class Real>
void compact(Real* matrix, int64_t stride, const int64_t* stay, int64_t n_stay, int n_threads) {
    if (n_stay == 0 || stay[n_stay - 1] == n_stay - 1) return;  // none but the last ones leave
    const auto height = std::min(kRowsMoved, n_stay);
    const auto moved = std::make_unique_for_overwrite<Real[]>(static_cast<std::size_t>(height * n_stay));
    for (int64_t first = 0; first < n_stay; first += height) {  // no row moves downwards
        const int64_t count = std::min(height, n_stay - first);
        gather(KeptRows<Real>{matrix, stride, stay + first, count, stay, n_stay}, moved.get(), n_stay, n_threads);
        MoveJob<Real> job{moved.get(), matrix + first * stride, stride, n_stay, count};
        parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, n_threads, move_task<Real>, &job);
    }
}

template void compact(float*, int64_t, const int64_t*, int64_t, int);
template void compact(double*, int64_t, const int64_t*, int64_t, int);
template void gather(const KeptRows<double>&, double*, int64_t, int);
template void gather(const KeptRows<double>&, float*, int64_t, int);
template void gather(const KeptRows<float>&, double*, int64_t, int);
template void gather(const KeptRows<float>&, float*, int64_t, int);

}  // namespace mercer
