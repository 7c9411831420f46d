// Terms of rows and their derivatives, compiled once per instruction set (see simd.hpp).
#include "parallel/parallel.hpp"
#include "parallel/scratch.hpp"
#include "rows/term_kinds.hpp"
#include "rows/threads.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kRowsPerTask = 8192;
constexpr int64_t kRowWork = 16;      // cost of a row, in multiplications
constexpr int64_t kMostLengths = 16;  // that are evaluated in one pass

int64_t task_count(const RowTerms& terms) { return (terms.count + kRowsPerTask - 1) / kRowsPerTask; }

template <class Kind>
struct TermsJob {
    const RowTerms& terms;
    const Kind& kind;
    const double* z;
    const TermSlopes& slopes;
    TermSums* sums;  // of each task
};

template <class Kind>
void terms_task(void* context, int64_t task) {
    const auto& job = *static_cast<const TermsJob<Kind>*>(context);
    const int64_t begin = task * kRowsPerTask, n = job.terms.count,
                  end = begin + kRowsPerTask < n ? begin + kRowsPerTask : n;
    TermValues sums{};
    for (int64_t i = begin; i < end; i += kLanes) {
        const TermRows rows = load_rows(job.terms, i);
        const Vec z = load_some(job.z + i, end - i, 0.0);
        const TermPoint at = job.kind.slopes(rows, z);
        store_some(job.slopes.beta + i, at.beta, end - i), store_some(job.slopes.curvature + i, at.curvature, end - i);
        const TermValues values = job.kind.values(rows, z, at.beta);
        sums.total += values.total, sums.loss += values.loss, sums.excess += values.excess;
    }
    job.sums[task] = {sum(sums.total), sum(sums.loss), sum(sums.excess)};
}

struct LineSums {
    double slopes[kMostLengths], bends[kMostLengths];
};

template <class Kind>
struct LineJob {
    const RowTerms& terms;
    const Kind& kind;
    const TermLine& line;
    LineSums* sums;  // of each task
};

template <class Kind>
void line_task(void* context, int64_t task) {
    const auto& job = *static_cast<const LineJob<Kind>*>(context);
    const TermLine& line = job.line;
    const int64_t begin = task * kRowsPerTask, n = job.terms.count,
                  end = begin + kRowsPerTask < n ? begin + kRowsPerTask : n;
    Vec slopes[kMostLengths] = {}, bends[kMostLengths] = {};
    for (int64_t i = begin; i < end; i += kLanes) {
        const TermRows rows = load_rows(job.terms, i);
        const Vec z = load_some(line.z + i, end - i, 0.0), change = load_some(line.change + i, end - i, 0.0);
        for (int64_t t = 0; t < line.n_lengths; ++t) {
            const TermPoint at = job.kind.slopes(rows, z + broadcast(line.lengths[t]) * change);
            slopes[t] -= at.beta * change, bends[t] += at.curvature * change * change;
        }
    }
    for (int64_t t = 0; t < line.n_lengths; ++t)
        job.sums[task].slopes[t] = sum(slopes[t]), job.sums[task].bends[t] = sum(bends[t]);
}

}  // namespace

TermSums row_terms(const RowTerms& terms, const double* z, const TermSlopes& slopes, int n_threads) {
    const int64_t n_tasks = task_count(terms);
    Scratch memory(sizeof(TermSums) * static_cast<std::size_t>(n_tasks + 1));
    auto* sums = memory.as<TermSums>();
    with_kind(terms, [&]<class Kind>(const Kind& kind) {
        TermsJob<Kind> job{terms, kind, z, slopes, sums};
        parallel_for(n_tasks, threads_for(kRowWork * terms.count, n_threads), terms_task<Kind>, &job);
    });
    TermSums all{};
    for (int64_t task = 0; task < n_tasks; ++task)
        all.total += sums[task].total, all.loss += sums[task].loss, all.excess += sums[task].excess;
    return all;
}

void term_line(const RowTerms& terms, const TermLine& line, int n_threads) {
    const int64_t n_tasks = task_count(terms);
    Scratch memory(sizeof(LineSums) * static_cast<std::size_t>(n_tasks + 1));
    auto* sums = memory.as<LineSums>();
    for (int64_t first = 0; first < line.n_lengths; first += kMostLengths) {
        const int64_t count = line.n_lengths - first < kMostLengths ? line.n_lengths - first : kMostLengths;
        const TermLine some{line.z, line.change, line.lengths + first, count, nullptr, nullptr};
        with_kind(terms, [&]<class Kind>(const Kind& kind) {
            LineJob<Kind> job{terms, kind, some, sums};
            parallel_for(n_tasks, threads_for(kRowWork * terms.count * count, n_threads), line_task<Kind>, &job);
        });
        for (int64_t t = 0; t < count; ++t) {
            double slope = 0.0, bend = 0.0;
            for (int64_t task = 0; task < n_tasks; ++task) slope += sums[task].slopes[t], bend += sums[task].bends[t];
            line.slopes[first + t] = slope, line.bends[first + t] = bend;
        }
    }
}

}  // namespace mercer::MERCER_ISA
