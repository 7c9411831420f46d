#include "gram/gather.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "parallel/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kRowsMoved = 256;  // rows that are compacted at a time: they stay in the L2 cache
constexpr int64_t kColumnsAtATime = 64;
constexpr int64_t kRowsAhead = 24;

template <class Cached, class Real>
struct GatherJob {
    const CachedRows<Cached>& cached;
    Real* out;
    int64_t out_stride;
};

template <class Cached, class Real>
void gather_row(const CachedRows<Cached>& cached, int64_t i, Real* out) {
    const Cached* row = cached.values + cached.slots[i] * cached.stride;
    if (cached.columns == nullptr)
        for (int64_t j = 0; j < cached.n_columns; ++j) out[j] = static_cast<Real>(row[j]);
    else
        for (int64_t j = 0; j < cached.n_columns; ++j) out[j] = static_cast<Real>(row[cached.columns[j]]);
}

template <class Cached, class Real>
void gather_task(void* context, int64_t task) {
    const auto& job = *static_cast<const GatherJob<Cached, Real>*>(context);
    const int64_t last = std::min((task + 1) * kRowsPerTask, job.cached.n_slots);
    for (int64_t i = task * kRowsPerTask; i < last; ++i) gather_row(job.cached, i, job.out + i * job.out_stride);
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

// Builds the symmetric matrix of the chosen variables. Some of their rows are cached; `square` has the values between
// the others.
struct SquareJob {
    const CachedRows<float>& cached;
    const float* square;
    int64_t square_stride;
    float* out;
    int64_t out_stride;
    std::vector<int64_t> places;   // positions of the variables without a cached row
    std::vector<int64_t> numbers;  // for each variable, how many variables without a cached row precede it
};

void square_task(void* context, int64_t task) {
    const auto& job = *static_cast<const SquareJob*>(context);
    const int64_t first = task * kRowsPerTask, last = std::min(first + kRowsPerTask, job.cached.n_slots);
    const auto n_missing = static_cast<int64_t>(job.places.size());
    int64_t listed[kRowsPerTask], n_found = 0;
    for (int64_t i = first; i < last; ++i) {
        float* out = job.out + i * job.out_stride;
        if (job.cached.slots[i] >= 0) {
            listed[n_found++] = i;
            gather_row(job.cached, i, out);
        } else {
            const float* values = job.square + job.numbers[static_cast<std::size_t>(i)] * job.square_stride;
            for (int64_t b = 0; b < n_missing; ++b) out[job.places[static_cast<std::size_t>(b)]] = values[b];
        }
    }
    // The rows of this task are still in the cache, and their mirrored values are adjacent in memory.
    for (const int64_t m : job.places) {
        float* out = job.out + m * job.out_stride;
        for (int64_t a = 0; a < n_found; ++a) out[listed[a]] = job.out[listed[a] * job.out_stride + m];
    }
}

struct MirrorJob {
    float* matrix;
    int64_t stride, size, n_known;
};

void mirror_task(void* context, int64_t task) {
    const auto& job = *static_cast<const MirrorJob*>(context);
    const int64_t first = job.n_known + task * kRowsPerTask, last = std::min(first + kRowsPerTask, job.size);
    // A buffer, because rows of the matrix may all map to the same cache set.
    float turned[kRowsPerTask][kColumnsAtATime];
    for (int64_t left = 0; left < job.n_known; left += kColumnsAtATime) {
        const int64_t width = std::min(kColumnsAtATime, job.n_known - left);
        for (int64_t c = 0; c < width; ++c) {
            const float* row = job.matrix + (left + c) * job.stride;
            if (left + c + kRowsAhead < job.n_known)  // hardware prefetchers do not predict this access
                __builtin_prefetch(row + kRowsAhead * job.stride + first);
            for (int64_t i = first; i < last; ++i) turned[i - first][c] = row[i];
        }
        for (int64_t i = first; i < last; ++i)
            std::copy_n(turned[i - first], width, job.matrix + i * job.stride + left);
    }
}

}  // namespace

void gather_square(const CachedRows<float>& cached, const float* square, int64_t square_stride, float* out,
                   int64_t out_stride, int n_threads) {
    SquareJob job{cached, square, square_stride, out, out_stride, {}, {}};
    for (int64_t i = 0; i < cached.n_slots; ++i) {
        job.numbers.push_back(static_cast<int64_t>(job.places.size()));
        if (cached.slots[i] < 0) job.places.push_back(i);
    }
    parallel_for((cached.n_slots + kRowsPerTask - 1) / kRowsPerTask, n_threads, square_task, &job);
}

void mirror_rows(float* matrix, int64_t stride, int64_t size, int64_t n_known, int n_threads) {
    MirrorJob job{matrix, stride, size, n_known};
    parallel_for((size - n_known + kRowsPerTask - 1) / kRowsPerTask, n_threads, mirror_task, &job);
}

void scatter(const CachedRows<float>& cached, const int64_t* places, float* out, int64_t out_stride) {
    for (int64_t i = cached.n_slots - 1; i >= 0; --i) {
        const float* row = cached.values + cached.slots[i] * cached.stride;
        float* to = out + i * out_stride;
        for (int64_t j = cached.n_columns - 1; j >= 0; --j) to[places[j]] = row[j];
    }
}

template <class Cached, class Real>
void gather(const CachedRows<Cached>& cached, Real* out, int64_t out_stride, int n_threads) {
    GatherJob<Cached, Real> job{cached, out, out_stride};
    parallel_for((cached.n_slots + kRowsPerTask - 1) / kRowsPerTask, n_threads, gather_task<Cached, Real>, &job);
}

template <class Real>
void compact_square(Real* matrix, int64_t stride, const int64_t* stay, int64_t n_stay, int n_threads) {
    if (n_stay == 0 || stay[n_stay - 1] == n_stay - 1) return;  // only indices at the end are removed
    const auto height = std::min(kRowsMoved, n_stay);
    const auto moved = std::make_unique_for_overwrite<Real[]>(static_cast<std::size_t>(height * n_stay));
    for (int64_t first = 0; first < n_stay; first += height) {  // rows move only to smaller indices
        const int64_t count = std::min(height, n_stay - first);
        gather(CachedRows<Real>{matrix, stride, stay + first, count, stay, n_stay}, moved.get(), n_stay, n_threads);
        MoveJob<Real> job{moved.get(), matrix + first * stride, stride, n_stay, count};
        parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, n_threads, move_task<Real>, &job);
    }
}

template void compact_square(float*, int64_t, const int64_t*, int64_t, int);
template void compact_square(double*, int64_t, const int64_t*, int64_t, int);
template void gather(const CachedRows<double>&, double*, int64_t, int);
template void gather(const CachedRows<double>&, float*, int64_t, int);
template void gather(const CachedRows<float>&, double*, int64_t, int);
template void gather(const CachedRows<float>&, float*, int64_t, int);

}  // namespace mercer
