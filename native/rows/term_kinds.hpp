// The functions of the decision values that row_terms.hpp describes, for a vector of rows.
#pragma once

#include "gram/simd.hpp"
#include "rows/row_terms.hpp"

namespace mercer::MERCER_ISA {

// A vector of rows. The lanes beyond the last row have charge 0 and target 1.
struct TermRows {
    Vec target, charge, share;
};

struct TermPoint {
    Vec beta, curvature;
};

struct TermValues {
    Vec total, loss, excess;
};

struct Logistic {
    explicit Logistic(const RowTerms&) {}

    MERCER_INLINE TermPoint slopes(const TermRows& rows, Vec z) const {
        const Vec margin = rows.target * z, tail = exp(-absolute(margin)), share = 1.0 / (1.0 + tail);
        const Vec other = tail * share;
        return {rows.charge * rows.target * (margin > 0 ? other : share), rows.charge * (share * other)};
    }

    MERCER_INLINE TermValues values(const TermRows& rows, Vec z, Vec) const {
        const Vec margin = rows.target * z, tail = exp(-absolute(margin)), denominator = 1.0 + tail;
        // ln(1 + tail) without the rounding error of 1 + tail
        const Vec exact = log(denominator) * (tail / (denominator - 1.0)), logarithm = denominator > 1.0 ? exact : tail;
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

    MERCER_INLINE Vec best(const TermRows& rows, Vec z, Vec& shrunken) const {
        const Vec moved = rows.share + factor * (rows.target - z);
        shrunken = moved - min(dead, max(-dead, moved));
        if constexpr (!kOneSided && !kBounded) return shrunken;
        const Vec bound = broadcast(kBounded ? 1.0 : __builtin_inf());
        const Vec lower = kOneSided ? (rows.target < 0 ? -bound : Vec{}) : -bound;
        const Vec upper = kOneSided ? (rows.target > 0 ? bound : Vec{}) : bound;
        return min(upper, max(lower, shrunken));
    }

    MERCER_INLINE TermPoint slopes(const TermRows& rows, Vec z) const {
        Vec shrunken;
        const Vec m = best(rows, z, shrunken), bent = rows.charge * unit;
        const Vec within = m == shrunken ? bent : Vec{};
        return {rows.charge * m, may_be_zero ? within : (shrunken == 0 ? Vec{} : within)};
    }

    MERCER_INLINE TermValues values(const TermRows& rows, Vec z, Vec beta) const {
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
    Vec loaded = broadcast(otherwise);
    for (int64_t lane = 0; lane < count; ++lane) loaded[lane] = from[lane];
    return loaded;
}

MERCER_INLINE void store_some(double* to, Vec values, int64_t count) {
    if (count >= kLanes) return store(to, values);
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = values[lane];
}

MERCER_INLINE TermRows load_rows(const RowTerms& terms, int64_t i) {
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

}  // namespace mercer::MERCER_ISA
