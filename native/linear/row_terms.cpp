// Terms of rows and their derivatives, compiled once per instruction set (see simd.hpp).
#include "linear/row_terms.hpp"

#include "kernels/simd.hpp"
#include "linear/threads.hpp"
#include "parallel/parallel.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kRowsPerTask = 8192;
constexpr int64_t kRowWork = 16;      // cost of a row, in multiplications
constexpr int64_t kMostLengths = 16;  // that are evaluated in one pass

// A vector of rows. The lanes beyond the last row have charge 0 and target 1.
struct Rows {
    Vec target, charge, share;
};

struct Point {
    Vec beta, curvature;
};

struct Values {
    Vec total, loss, excess;
};

struct Logistic {
    explicit Logistic(const RowTerms&) {}

    MERCER_INLINE Point slopes(const Rows& rows, Vec z) const {
        const Vec margin = rows.target * z, tail = exp(-absolute(margin)), share = 1.0 / (1.0 + tail);
        const Vec other = tail * share;
        return {rows.charge * rows.target * (margin > 0 ? other : share), rows.charge * (share * other)};
    }

    MERCER_INLINE Values values(const Rows& rows, Vec z, Vec) const {
        const Vec margin = rows.target * z, tail = exp(-absolute(margin)), whole = 1.0 + tail;
        // ln(1 + tail) without the rounding error of 1 + tail
        const Vec exact = log(whole) * (tail / (whole - 1.0)), logarithm = whole > 1.0 ? exact : tail;
        const Vec total = rows.charge * (logarithm + max(Vec{}, -margin));
        return {total, total, Vec{}};
    }

  private:
    static MERCER_INLINE Vec absolute(Vec x) { return x < 0 ? -x : x; }
};

template <bool kOneSided, bool kBounded>
struct Quadratic {
    explicit Quadratic(const RowTerms& terms)
        : epsilon(broadcast(terms.epsilon)),
          factor(broadcast(terms.factor)),
          dead(broadcast(terms.factor * terms.epsilon)),
          unit(broadcast(terms.unit)),
          half(broadcast(0.5 / terms.factor)),
          may_be_zero(terms.epsilon == 0.0) {}

    MERCER_INLINE Vec best(const Rows& rows, Vec z, Vec& shrunken) const {
        const Vec moved = rows.share + factor * (rows.target - z);
        shrunken = moved - min(dead, max(-dead, moved));
        if constexpr (!kOneSided && !kBounded) return shrunken;
        const Vec bound = broadcast(kBounded ? 1.0 : __builtin_inf());
        const Vec lower = kOneSided ? (rows.target < 0 ? -bound : Vec{}) : -bound;
        const Vec upper = kOneSided ? (rows.target > 0 ? bound : Vec{}) : bound;
        return min(upper, max(lower, shrunken));
    }

    MERCER_INLINE Point slopes(const Rows& rows, Vec z) const {
        Vec shrunken;
        const Vec m = best(rows, z, shrunken), bent = rows.charge * unit;
        const Vec within = m == shrunken ? bent : Vec{};
        return {rows.charge * m, may_be_zero ? within : (shrunken == 0 ? Vec{} : within)};
    }

    MERCER_INLINE Values values(const Rows& rows, Vec z, Vec beta) const {
        (void)beta;
        Vec shrunken;
        const Vec m = best(rows, z, shrunken), rest = rows.target - z, size = m < 0 ? -m : m;
        const Vec linear = m * rest - epsilon * size, away = m - rows.share;
        const Vec total = rows.charge * (linear - away * away * half);
        if constexpr (!kBounded) return {total, total, Vec{}};
        const Vec up = max(Vec{}, rest - epsilon), down = max(Vec{}, -rest - epsilon);
        const Vec loss = kOneSided ? (rows.target > 0 ? up : down) : max(up, down);
        return {total, rows.charge * loss, rows.charge * (loss - linear)};
    }

    const Vec epsilon, factor, dead, unit, half;
    const bool may_be_zero;
};

MERCER_INLINE Vec load_some(const double* from, int64_t count, double otherwise) {
    if (count >= kLanes) return load(from);
    Vec found = broadcast(otherwise);
    for (int64_t lane = 0; lane < count; ++lane) found[lane] = from[lane];
    return found;
}

MERCER_INLINE void store_some(double* to, Vec values, int64_t count) {
    if (count >= kLanes) return store(to, values);
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = values[lane];
}

MERCER_INLINE Rows load_rows(const RowTerms& terms, int64_t i) {
    const int64_t count = terms.count - i;
    return {load_some(terms.targets + i, count, 1.0), load_some(terms.charges + i, count, 0.0),
            terms.shares ? load_some(terms.shares + i, count, 0.0) : Vec{}};
}

// Calls visit with the kind of terms.
template <class Visit>
void with_kind(const RowTerms& terms, Visit visit) {
    if (terms.is_logistic) return visit(Logistic(terms));
    if (terms.one_sided)
        return terms.bounded ? visit(Quadratic<true, true>(terms)) : visit(Quadratic<true, false>(terms));
    return terms.bounded ? visit(Quadratic<false, true>(terms)) : visit(Quadratic<false, false>(terms));
}

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
    Values sums{};
    for (int64_t i = begin; i < end; i += kLanes) {
        const Rows rows = load_rows(job.terms, i);
        const Vec z = load_some(job.z + i, end - i, 0.0);
        const Point at = job.kind.slopes(rows, z);
        store_some(job.slopes.beta + i, at.beta, end - i), store_some(job.slopes.curvature + i, at.curvature, end - i);
        const Values values = job.kind.values(rows, z, at.beta);
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
        const Rows rows = load_rows(job.terms, i);
        const Vec z = load_some(line.z + i, end - i, 0.0), change = load_some(line.change + i, end - i, 0.0);
        for (int64_t t = 0; t < line.n_lengths; ++t) {
            const Point at = job.kind.slopes(rows, z + broadcast(line.lengths[t]) * change);
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
