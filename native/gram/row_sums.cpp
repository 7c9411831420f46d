// Weighted sums of cached rows, compiled once per instruction set (see simd.hpp).
#include "gram/row_sums.hpp"

#include "gram/simd.hpp"
#include "parallel/parallel.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kColumnsPerTask = 1024;
constexpr int64_t kRowsAtATime = 4;     // rows that are added each time a sum is read and written
constexpr int64_t kOutputsAtATime = 4;  // sums that are updated each time a row is read
// If the listed columns span at most this many times their number, summing the whole span is faster than gathering.
constexpr int64_t kSpread = 2;
template <class Cached>
constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Cached));  // values in a cache line

template <class Cached>
struct CombineJob {
    const CachedRows<Cached>& cached;
    const Sums& sums;
};

// Adjacent columns, from `first` on.
struct InOrder {
    int64_t first;

    int64_t operator()(int64_t j) const { return first + j; }
    template <class Cached>
    MERCER_INLINE Vec several(const Cached* row, int64_t j) const {
        return load(row + first + j);
    }
};

// Columns from a list of indices.
struct LookedUp {
    const int64_t* columns;

    int64_t operator()(int64_t j) const { return columns[j]; }
    template <class Cached>
    MERCER_INLINE Vec several(const Cached* row, int64_t j) const {
        Vec loaded;
        for (int lane = 0; lane < kLanes; ++lane) loaded[lane] = static_cast<double>(row[columns[j + lane]]);
        return loaded;
    }
};

// Values of a row at kLanes columns, from the j-th on; or, if not kWhole, at the remaining `count` columns.
template <bool kWhole, class Place, class Cached>
MERCER_INLINE Vec at_columns(const Place& place, const Cached* row, int64_t j, int64_t count) {
    if constexpr (kWhole) return place.several(row, j);
    Vec loaded{};
    for (int64_t lane = 0; lane < count; ++lane) loaded[lane] = static_cast<double>(row[place(j + lane)]);
    return loaded;
}

template <bool kWhole>
MERCER_INLINE Vec read(const double* from, int64_t count) {
    if constexpr (kWhole) return load(from);
    Vec loaded{};
    for (int64_t lane = 0; lane < count; ++lane) loaded[lane] = from[lane];
    return loaded;
}

template <bool kWhole>
MERCER_INLINE void write(double* to, Vec values, int64_t count) {
    if constexpr (kWhole) return store(to, values);
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = values[lane];
}

// Adds kRows weighted rows to kOutputs sums at kLanes columns or, if not kWhole, at the remaining `count` columns.
// Explicit fused multiply-adds make the rounding independent of the compiler.
template <bool kWhole, int64_t kRows, int64_t kOutputs, class Cached, class Place>
MERCER_INLINE void add_rows(const Cached* const* rows, const Vec (*weights)[kRows], int64_t j, int64_t count,
                            const Place& place, double* out, int64_t stride) {
    Vec values[kRows];
    for (int64_t r = 0; r < kRows; ++r) values[r] = at_columns<kWhole>(place, rows[r], j, count);
    for (int64_t k = 0; k < kOutputs; ++k) {
        double* sums = out + k * stride + j;
        Vec total = read<kWhole>(sums, count);
        for (int64_t r = 0; r < kRows; ++r) total = multiply_add(weights[k][r], values[r], total);
        write<kWhole>(sums, total, count);
    }
}

// out[k][j] += sum_i weights[k][i] kept[slots[i]][place(j)] for j < n and for kOutputs outputs, from `first` on. While
// four rows are added, the next four are prefetched: a task reads too little of a row for the hardware prefetcher to
// help.
template <int64_t kOutputs, class Cached, class Place>
void combine_columns(const CombineJob<Cached>& job, int64_t first, int64_t n, double* out, int64_t stride,
                     const Place& place) {
    const CachedRows<Cached>& cached = job.cached;
    const int64_t n_full = n - n % kLanes;
    auto row = [&](int64_t i) MERCER_LAMBDA_INLINE { return cached.values + cached.slots[i] * cached.stride; };
    auto weight = [&](int64_t k, int64_t i)
                      MERCER_LAMBDA_INLINE { return broadcast(job.sums.weights[(first + k) * cached.n_slots + i]); };
    int64_t i = 0;
    for (; i + kRowsAtATime <= cached.n_slots; i += kRowsAtATime) {
        const Cached *rows[kRowsAtATime], *next[kRowsAtATime];
        Vec weights[kOutputs][kRowsAtATime];
        for (int64_t r = 0; r < kRowsAtATime; ++r) {
            const int64_t later = i + kRowsAtATime + r;
            rows[r] = row(i + r), next[r] = row(later < cached.n_slots ? later : cached.n_slots - 1);
            for (int64_t k = 0; k < kOutputs; ++k) weights[k][r] = weight(k, i + r);
        }
        for (int64_t j = 0; j < n_full; j += kLanes) {
            if (j % kLine<Cached> == 0)
                for (const Cached* far : next) __builtin_prefetch(far + place(j), 0, 2);
            add_rows<true, kRowsAtATime, kOutputs>(rows, weights, j, kLanes, place, out, stride);
        }
        if (n_full < n) add_rows<false, kRowsAtATime, kOutputs>(rows, weights, n_full, n - n_full, place, out, stride);
    }
    for (; i < cached.n_slots; ++i) {
        const Cached* rows[1] = {row(i)};
        Vec weights[kOutputs][1];
        for (int64_t k = 0; k < kOutputs; ++k) weights[k][0] = weight(k, i);
        for (int64_t j = 0; j < n_full; j += kLanes)
            add_rows<true, 1, kOutputs>(rows, weights, j, kLanes, place, out, stride);
        if (n_full < n) add_rows<false, 1, kOutputs>(rows, weights, n_full, n - n_full, place, out, stride);
    }
}

template <int64_t kOutputs, class Cached>
void combine_part(const CombineJob<Cached>& job, int64_t output, int64_t first) {
    const int64_t stride = job.cached.n_columns, left = stride - first,
                  n = left < kColumnsPerTask ? left : kColumnsPerTask;
    double* out = job.sums.out + output * stride + first;
    if (job.cached.columns == nullptr) return combine_columns<kOutputs>(job, output, n, out, stride, InOrder{first});
    const int64_t* columns = job.cached.columns + first;
    int64_t low = columns[0], high = columns[0];
    for (int64_t j = 1; j < n; ++j) {
        low = columns[j] < low ? columns[j] : low;
        high = columns[j] > high ? columns[j] : high;
    }
    const int64_t span = high - low + 1;
    if (span > kSpread * n) return combine_columns<kOutputs>(job, output, n, out, stride, LookedUp{columns});
    double sums[kOutputs][kSpread * kColumnsPerTask] = {};
    combine_columns<kOutputs>(job, output, span, sums[0], kSpread * kColumnsPerTask, InOrder{low});
    for (int64_t k = 0; k < kOutputs; ++k)
        for (int64_t j = 0; j < n; ++j) out[k * stride + j] += sums[k][columns[j] - low];
}

template <class Cached>
void combine_task(void* context, int64_t task) {
    const auto& job = *static_cast<const CombineJob<Cached>*>(context);
    int64_t output = 0;
    for (; output + kOutputsAtATime <= job.sums.n_outputs; output += kOutputsAtATime)
        combine_part<kOutputsAtATime>(job, output, task * kColumnsPerTask);
    for (; output < job.sums.n_outputs; ++output) combine_part<1>(job, output, task * kColumnsPerTask);
}

template <class Cached>
void run(const CachedRows<Cached>& cached, const Sums& sums, int n_threads) {
    CombineJob<Cached> job{cached, sums};
    parallel_for((cached.n_columns + kColumnsPerTask - 1) / kColumnsPerTask, n_threads, combine_task<Cached>, &job);
}

}  // namespace

void combine(const CachedRows<double>& cached, const Sums& sums, int n_threads) { run(cached, sums, n_threads); }

void combine_single(const CachedRows<float>& cached, const Sums& sums, int n_threads) { run(cached, sums, n_threads); }

}  // namespace mercer::MERCER_ISA
