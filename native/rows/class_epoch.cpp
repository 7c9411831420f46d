// An epoch of dual coordinate descent for several classes, compiled once per instruction set (see simd.hpp).
#include "rows/class_epoch.hpp"

#include "rows/four_classes.hpp"
#include "rows/sparse_rows.hpp"

namespace mercer::MERCER_ISA {

namespace {

constexpr int64_t kAhead = 4;  // rows; how far ahead rows are prefetched

// A row as the losses of four classes see it, and the thresholds of shrinking.
struct Row {
    Four sign, charge, beta, z, up, down;
    double square;
};

// The new coefficients of a row, and the state before the step. `gradient` is that of the minimised dual with respect
// to alpha = y beta >= 0; it is 0 where a bound keeps the row from moving. `bend` is the curvature of the loss' part.
struct Step {
    Four beta, gap, gradient, bend;
    Mask shrinks;
};

struct HingeSteps {
    MERCER_INLINE Step operator()(const Row& row) const {
        const Four alpha = row.sign * row.beta, gradient = row.sign * row.z - 1.0, zero = {};
        const Mask at_zero = alpha <= 0.0, at_charge = alpha >= row.charge;
        const Mask stays = (at_zero & (gradient >= 0.0)) | (at_charge & (gradient <= 0.0));
        // A row of zeros has gradient -1, and the quotient is -infinity.
        const Four best = smaller(larger(alpha - gradient / row.square, zero), row.charge);
        return {row.sign * best, gradient * choose(gradient > 0.0, alpha, alpha - row.charge),
                choose(stays, zero, gradient), zero,
                (at_zero & (gradient > row.up)) | (at_charge & (gradient < row.down))};
    }
};

struct SquaredHingeSteps {
    MERCER_INLINE Step operator()(const Row& row) const {
        const Four alpha = row.sign * row.beta, margin = row.sign * row.z, zero = {};
        const Four bend = 0.5 / row.charge, gradient = margin - 1.0 + alpha * bend;
        const Four missing = larger(zero, 1.0 - margin);
        const Mask at_zero = alpha <= 0.0;
        const Four best = larger(zero, (alpha * row.square + (1.0 - margin)) / (row.square + bend));
        return {row.sign * best, row.charge * missing * missing + alpha * (0.5 * alpha * bend + margin - 1.0),
                choose(at_zero & (gradient >= 0.0), zero, gradient), bend, at_zero & (gradient > row.up)};
    }
};

// An epoch for 4 * kFours classes.
template <int kFours, class Rows, class Steps>
bool run_epoch(const ClassEpoch& epoch, const Rows& rows, const Steps& steps) {
    constexpr int64_t kClasses = 4 * kFours;
    const double constant = epoch.table.constant;
    double* last_weights = epoch.w + epoch.table.n_columns * kClasses;  // of the constant
    Four measures[4][kFours];  // the gap, violations in both directions, and the growth of the dual objective
    for (int q = 0; q < 4; ++q)
        for (int f = 0; f < kFours; ++f) measures[q][f] = load_four(epoch.measures + q * kClasses + 4 * f);
    bool in_range = true;
    for (int64_t k = 0; k < epoch.n_visits; ++k) {
        if (k + kAhead < epoch.n_visits) rows.prefetch(epoch.order[k + kAhead]);
        const int64_t i = epoch.order[k];
        const unsigned active = epoch.active[i];
        if (active == 0) continue;
        const auto row = rows[i];
        in_range = in_range && row.in_range;

        Four z[kFours] = {}, other[kFours] = {};  // two sums, because additions have latency
        int64_t e = 0;
        for (; e + 2 <= row.count; e += 2) {
            const double *one = epoch.w + static_cast<int64_t>(row.columns[e]) * kClasses,
                         *two = epoch.w + static_cast<int64_t>(row.columns[e + 1]) * kClasses;
            const auto x = static_cast<double>(row.values[e]), y = static_cast<double>(row.values[e + 1]);
#pragma GCC unroll 4
            for (int f = 0; f < kFours; ++f) {
                z[f] += x * load_four(one + 4 * f);
                other[f] += y * load_four(two + 4 * f);
            }
        }
        if (e < row.count) {
            const double* one = epoch.w + static_cast<int64_t>(row.columns[e]) * kClasses;
            const auto x = static_cast<double>(row.values[e]);
#pragma GCC unroll 4
            for (int f = 0; f < kFours; ++f) z[f] += x * load_four(one + 4 * f);
        }

        double* beta = epoch.beta + i * kClasses;
        Four change[kFours];
        Mask moves = {};
        unsigned shrinks = 0;
        const Four zero = {};
#pragma GCC unroll 4
        for (int f = 0; f < kFours; ++f) {
            z[f] += other[f];
            if (constant != 0.0) z[f] += constant * load_four(last_weights + 4 * f);
            const Four charge = load_four(epoch.charges + i * kClasses + 4 * f), before = load_four(beta + 4 * f);
            const Four sign = choose(charge < 0.0, zero - 1.0, zero + 1.0);
            const Mask is_active = mask_of(active >> (4 * f));
            const Step step = steps(Row{sign, sign * charge, before, z[f], load_four(epoch.up + 4 * f),
                                        load_four(epoch.down + 4 * f), epoch.squares[i]});
            const Four after = choose(is_active, step.beta, before);
            const Four change_here = after - before;
            measures[0][f] += choose(is_active, step.gap, zero);
            measures[1][f] = choose(is_active, larger(measures[1][f], step.gradient), measures[1][f]);
            measures[2][f] = choose(is_active, smaller(measures[2][f], step.gradient), measures[2][f]);
            const Four slope = sign - z[f] - 0.5 * change_here * epoch.squares[i];
            const Four growth = change_here * (slope - 0.5 * step.bend * (after + before));
            measures[3][f] += choose(is_active, growth, zero);
            shrinks |= bits_of(is_active & step.shrinks) << (4 * f);
            change[f] = change_here;
            moves |= change_here != 0.0;
            store_four(beta + 4 * f, after);
        }
        if (shrinks) {
            epoch.active[i] = static_cast<uint16_t>(active & ~shrinks);
            for (int64_t c = 0; c < kClasses; ++c) epoch.n_shrunken[c] += shrinks >> c & 1;
        }
        if (!bits_of(moves)) continue;
        for (e = 0; e < row.count; ++e) {
            double* one = epoch.w + static_cast<int64_t>(row.columns[e]) * kClasses;
            const auto x = static_cast<double>(row.values[e]);
#pragma GCC unroll 4
            for (int f = 0; f < kFours; ++f) store_four(one + 4 * f, load_four(one + 4 * f) + x * change[f]);
        }
        if (constant != 0.0)
            for (int f = 0; f < kFours; ++f)
                store_four(last_weights + 4 * f, load_four(last_weights + 4 * f) + constant * change[f]);
    }
    for (int q = 0; q < 4; ++q)
        for (int f = 0; f < kFours; ++f) store_four(epoch.measures + q * kClasses + 4 * f, measures[q][f]);
    return in_range;
}

template <class Rows, class Steps>
bool run_epoch(const ClassEpoch& epoch, const Rows& rows, const Steps& steps) {
    switch (epoch.n_classes) {
        case 4:
            return run_epoch<1>(epoch, rows, steps);
        case 8:
            return run_epoch<2>(epoch, rows, steps);
        case 12:
            return run_epoch<3>(epoch, rows, steps);
        default:
            return run_epoch<4>(epoch, rows, steps);
    }
}

}  // namespace

bool class_epoch(const ClassEpoch& epoch) {
    return with_sparse_rows(epoch.table, [&](const auto& rows) {
        return epoch.is_squared ? run_epoch(epoch, rows, SquaredHingeSteps()) : run_epoch(epoch, rows, HingeSteps());
    });
}

}  // namespace mercer::MERCER_ISA
