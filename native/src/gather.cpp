#include "mercer/gather.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "mercer/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kColumnsPerTask = 1024;
constexpr int64_t kColumnsAtATime = 64;
constexpr int64_t kColumnsAhead = 24;
constexpr int64_t kAskedApart = 4;      // of 16 rows that lie side by side or some way apart
constexpr int64_t kRowsAtATime = 4;     // an index is looked up once for so many rows
constexpr int64_t kOutputsAtATime = 4;  // rows are read once for so many sums

constexpr int64_t kSpread = 2;  // of so many columns side by side, one by one takes longer than all of them
template <class Kept>
constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Kept));  // values on a line of the cache

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

template <class Kept>
struct CombineJob {
    const KeptRows<Kept>& kept;
    const Sums& sums;
};

// out[k][j] += sum_i weights[k][i] kept[slots[i]][place(j)] for n of them, and kOutputs of them from the first on.
// While four rows are added, the next four are on their way: a task reads too little of a row for the processor to see
// where it will go on.
template <int64_t kOutputs, class Kept, class Place>
void combine_columns(const CombineJob<Kept>& job, int64_t first, int64_t n, double* out, int64_t stride, Place place) {
    const KeptRows<Kept>& kept = job.kept;
    auto row = [&](int64_t i) { return kept.values + kept.slots[i] * kept.stride; };
    auto weights = [&](int64_t k) { return job.sums.weights + (first + k) * kept.n_slots; };
    int64_t i = 0;
    for (; i + kRowsAtATime <= kept.n_slots; i += kRowsAtATime) {
        const Kept *a = row(i), *b = row(i + 1), *c = row(i + 2), *d = row(i + 3), *next[kRowsAtATime];
        for (int64_t k = 0; k < kRowsAtATime; ++k) next[k] = row(std::min(i + kRowsAtATime + k, kept.n_slots - 1));
        for (int64_t left = 0; left < n; left += kLine<Kept>) {
            for (const Kept* far : next) __builtin_prefetch(far + place(left), 0, 2);
            const int64_t right = std::min(left + kLine<Kept>, n);
            for (int64_t k = 0; k < kOutputs; ++k) {
                const double *w = weights(k) + i, wa = w[0], wb = w[1], wc = w[2], wd = w[3];
                for (int64_t j = left; j < right; ++j) {
                    const int64_t at = place(j);
                    out[k * stride + j] += (wa * static_cast<double>(a[at]) + wb * static_cast<double>(b[at])) +
                                           (wc * static_cast<double>(c[at]) + wd * static_cast<double>(d[at]));
                }
            }
        }
    }
    for (; i < kept.n_slots; ++i) {
        const Kept* a = row(i);
        for (int64_t k = 0; k < kOutputs; ++k) {
            const double weight = weights(k)[i];
            for (int64_t j = 0; j < n; ++j) out[k * stride + j] += weight * static_cast<double>(a[place(j)]);
        }
    }
}

template <int64_t kOutputs, class Kept>
void combine_part(const CombineJob<Kept>& job, int64_t output, int64_t first) {
    const int64_t stride = job.kept.n_columns, n = std::min(kColumnsPerTask, stride - first);
    double* out = job.sums.out + output * stride + first;
    if (job.kept.columns == nullptr)
        return combine_columns<kOutputs>(job, output, n, out, stride, [first](int64_t j) { return first + j; });
    const int64_t* columns = job.kept.columns + first;
    const auto [low, high] = std::minmax_element(columns, columns + n);
    const int64_t start = *low, span = *high - start + 1;
    if (span > kSpread * n)
        return combine_columns<kOutputs>(job, output, n, out, stride, [columns](int64_t j) { return columns[j]; });
    double sums[kOutputs][kSpread * kColumnsPerTask] = {};
    combine_columns<kOutputs>(job, output, span, sums[0], kSpread * kColumnsPerTask,
                              [start](int64_t j) { return start + j; });
    for (int64_t k = 0; k < kOutputs; ++k)
        for (int64_t j = 0; j < n; ++j) out[k * stride + j] += sums[k][columns[j] - start];
}

template <class Kept>
void combine_task(void* context, int64_t task) {
    const auto& job = *static_cast<const CombineJob<Kept>*>(context);
    int64_t output = 0;
    for (; output + kOutputsAtATime <= job.sums.n_outputs; output += kOutputsAtATime)
        combine_part<kOutputsAtATime>(job, output, task * kColumnsPerTask);
    for (; output < job.sums.n_outputs; ++output) combine_part<1>(job, output, task * kColumnsPerTask);
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

template <class Kept>
void combine(const KeptRows<Kept>& kept, const Sums& sums, int n_threads) {
    CombineJob<Kept> job{kept, sums};
    parallel_for((kept.n_columns + kColumnsPerTask - 1) / kColumnsPerTask, n_threads, combine_task<Kept>, &job);
}

template void gather(const KeptRows<double>&, double*, int64_t, int);
template void gather(const KeptRows<double>&, float*, int64_t, int);
template void gather(const KeptRows<float>&, double*, int64_t, int);
template void gather(const KeptRows<float>&, float*, int64_t, int);
template void combine(const KeptRows<double>&, const Sums&, int);
template void combine(const KeptRows<float>&, const Sums&, int);

}  // namespace mercer
