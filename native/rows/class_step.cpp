// Steps between the epochs of several classes, compiled once per instruction set (see simd.hpp).
#include "rows/class_step.hpp"

#include "rows/class_epoch.hpp"
#include "rows/four_classes.hpp"
#include "rows/sparse_rows.hpp"

namespace mercer::MERCER_ISA {

namespace {

constexpr double kLeastAngle = 1e-8;    // squared sine of the angle between changes that are independent
constexpr double kMostLength = 1e3;     // of a change; the rounding errors of w are multiplied by it
constexpr double kLeastGrowth = 1e-11;  // of the dual objective, as a share of ||w||^2; less is rounding

// A coefficient of four classes. Its part of the dual objective has the slope `slope` and the curvature -bend.
struct Coefficient {
    Four beta, charge, bend, slope;

    MERCER_INLINE Coefficient(const ClassStep& step, int64_t at) : beta(load_four(step.beta + at)) {
        const Four signed_charge = load_four(step.charges + at), zero = {};
        charge = size_of(signed_charge);
        bend = step.is_squared ? choose(charge > 0.0, 0.5 / charge, zero) : zero;
        slope = choose(signed_charge < 0.0, zero - 1.0, zero + 1.0) - bend * beta;
    }

    MERCER_INLINE Mask is_free(bool is_squared) const {
        const Mask is_nonzero = beta != 0.0;
        return is_squared ? is_nonzero : is_nonzero & (size_of(beta) < charge);
    }

    // The coefficient after a change: it stops at its bounds.
    MERCER_INLINE Four moved(Four change, bool is_squared) const {
        const Four after = beta + change, zero = {};
        const Four inside = is_squared ? after : smaller(larger(after, -charge), charge);
        return choose(beta * after <= 0.0, zero, inside);
    }
};

template <int kFours>
struct Fours {
    Four at[kFours] = {};
};

template <int kFours>
MERCER_INLINE bool any(const Fours<kFours>& numbers) {
    Mask nonzero = {};
    for (int f = 0; f < kFours; ++f) nonzero |= numbers.at[f] != 0.0;
    return bits_of(nonzero) != 0;
}

// Adds `factors` times row i to columns. Returns whether the row lies within the table.
template <int kFours, class Rows>
bool add_row(const void* all_rows, const LinearTable& table, int64_t i, const Four* factors, double* columns) {
    constexpr int64_t kClasses = 4 * kFours;
    const auto row = (*static_cast<const Rows*>(all_rows))[i];
    for (int64_t e = 0; e < row.count; ++e) {
        double* to = columns + static_cast<int64_t>(row.columns[e]) * kClasses;
        const auto x = static_cast<double>(row.values[e]);
        for (int f = 0; f < kFours; ++f) store_four(to + 4 * f, load_four(to + 4 * f) + x * factors[f]);
    }
    if (table.constant != 0.0) {
        double* to = columns + table.n_columns * kClasses;
        for (int f = 0; f < kFours; ++f) store_four(to + 4 * f, load_four(to + 4 * f) + table.constant * factors[f]);
    }
    return row.in_range;
}

using AddRow = bool (*)(const void* rows, const LinearTable&, int64_t i, const Four* factors, double* columns);

// Only `add_row` depends on the types of the table, so that the rest is compiled once for all of them.
template <int kFours>
class Step {
  public:
    Step(const ClassStep& step, const void* rows, AddRow add_row) : step_(step), rows_(rows), add_row_(add_row) {}

    bool make() {
        subtract(step_.beta, step_.beta_before, step_.table.n_rows * kClasses);
        subtract(step_.w, step_.w_before, step_.table.width() * kClasses);
        sum_rows();
        sum_columns();
        find_lengths();
        move_columns();
        move_rows();
        accept();
        return in_range_;
    }

  private:
    static constexpr int64_t kClasses = 4 * kFours;

    // before = now - before
    static void subtract(const double* now, double* before, int64_t count) {
        for (int64_t k = 0; k < count; ++k) before[k] = now[k] - before[k];
    }

    MERCER_INLINE void add_row(int64_t i, const Fours<kFours>& factors, double* columns) {
        in_range_ = add_row_(rows_, step_.table, i, factors.at, columns) && in_range_;
    }

    // Drops the changes of coefficients that are at a bound now, and sums the parts of the rows.
    void sum_rows() {
        for (int64_t i = 0; i < step_.table.n_rows; ++i) {
            Fours<kFours> now_dropped, last_dropped;
            bool drops = false;
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = i * kClasses + 4 * f;
                Four now = load_four(step_.beta_before + at), last = load_four(step_.beta_change + at);
                const Four zero = {};
                const Mask changes = (now != 0.0) | (last != 0.0);
                if (!bits_of(changes)) continue;
                const Coefficient coefficient(step_, at);
                const Mask keeps = coefficient.is_free(step_.is_squared);
                if (bits_of(changes & ~keeps)) {
                    drops = true;
                    now_dropped.at[f] = choose(keeps, zero, -now), last_dropped.at[f] = choose(keeps, zero, -last);
                    now = choose(keeps, now, zero), last = choose(keeps, last, zero);
                    store_four(step_.beta_before + at, now), store_four(step_.beta_change + at, last);
                }
                slope_[0].at[f] += now * coefficient.slope, slope_[1].at[f] += last * coefficient.slope;
                a_.at[f] += coefficient.bend * now * now, b_.at[f] += coefficient.bend * now * last;
                c_.at[f] += coefficient.bend * last * last;
            }
            if (!drops) continue;
            if (any(now_dropped)) add_row(i, now_dropped, step_.w_before);
            if (any(last_dropped)) add_row(i, last_dropped, step_.w_change);
        }
    }

    void sum_columns() {
        for (int64_t j = 0; j < step_.table.width(); ++j)
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = j * kClasses + 4 * f;
                const Four now = load_four(step_.w_before + at), last = load_four(step_.w_change + at),
                           w = load_four(step_.w + at);
                slope_[0].at[f] -= now * w, slope_[1].at[f] -= last * w;
                a_.at[f] += now * now, b_.at[f] += now * last, c_.at[f] += last * last;
                square_.at[f] += w * w;
            }
    }

    void find_lengths() {
        for (int f = 0; f < kFours; ++f) {
            const Four a = a_.at[f], b = b_.at[f], c = c_.at[f], zero = {};
            const Four determinant = a * c - b * b;
            const Mask both = determinant > kLeastAngle * a * c;
            Four s = choose(both, (c * slope_[0].at[f] - b * slope_[1].at[f]) / determinant, slope_[0].at[f] / a),
                 t = choose(both, (a * slope_[1].at[f] - b * slope_[0].at[f]) / determinant, zero);
            const Mask is_good = (a > 0.0) & (size_of(s) <= kMostLength) & (size_of(t) <= kMostLength);
            now_.at[f] = choose(is_good, s, zero), last_.at[f] = choose(is_good, t, zero);
        }
    }

    void move_columns() {
        for (int64_t j = 0; j < step_.table.width(); ++j)
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = j * kClasses + 4 * f;
                const Four change =
                    now_.at[f] * load_four(step_.w_before + at) + last_.at[f] * load_four(step_.w_change + at);
                store_four(step_.moved + at, load_four(step_.w + at) + change);
            }
    }

    MERCER_INLINE Four change_of(int64_t at, int f) const {
        return now_.at[f] * load_four(step_.beta_before + at) + last_.at[f] * load_four(step_.beta_change + at);
    }

    // Sums the growth of the dual objectives, and adds to `moved` what coefficients miss that stop at a bound.
    void move_rows() {
        for (int64_t i = 0; i < step_.table.n_rows; ++i) {
            Fours<kFours> missing;
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = i * kClasses + 4 * f;
                const Four change = change_of(at, f), zero = {};
                const Mask changes = change != 0.0;
                if (!bits_of(changes)) continue;
                const Coefficient coefficient(step_, at);
                const Four made = choose(changes, coefficient.moved(change, step_.is_squared) - coefficient.beta, zero);
                growth_.at[f] += made * (coefficient.slope - 0.5 * coefficient.bend * made);
                missing.at[f] = made - change;
            }
            if (any(missing)) add_row(i, missing, step_.moved);
        }
        for (int64_t j = 0; j < step_.table.width(); ++j)
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = j * kClasses + 4 * f;
                const Four moved = load_four(step_.moved + at), w = load_four(step_.w + at);
                growth_.at[f] -= 0.5 * (moved - w) * (moved + w);
            }
    }

    // Moves the classes whose dual objective grows, and notes the changes.
    void accept() {
        Mask moves[kFours];
        for (int f = 0; f < kFours; ++f) {
            const Four zero = {};
            moves[f] = growth_.at[f] > kLeastGrowth * square_.at[f];
            store_four(step_.growth + 4 * f, choose(moves[f], growth_.at[f], zero));
        }
        for (int64_t i = 0; i < step_.table.n_rows; ++i)
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = i * kClasses + 4 * f;
                const Four change = change_of(at, f), now = load_four(step_.beta_before + at);
                const Coefficient coefficient(step_, at);
                const Four after =
                    choose(moves[f] & (change != 0.0), coefficient.moved(change, step_.is_squared), coefficient.beta);
                store_four(step_.beta_change + at, now + (after - coefficient.beta));
                store_four(step_.beta_before + at, after), store_four(step_.beta + at, after);
            }
        for (int64_t j = 0; j < step_.table.width(); ++j)
            for (int f = 0; f < kFours; ++f) {
                const int64_t at = j * kClasses + 4 * f;
                const Four w = load_four(step_.w + at), now = load_four(step_.w_before + at);
                const Four after = choose(moves[f], load_four(step_.moved + at), w);
                store_four(step_.w_change + at, now + (after - w));
                store_four(step_.w_before + at, after), store_four(step_.w + at, after);
            }
    }

    const ClassStep& step_;
    const void* rows_;
    const AddRow add_row_;
    Fours<kFours> slope_[2], a_, b_, c_, square_, now_, last_, growth_;
    bool in_range_ = true;
};

template <class Rows>
bool run_step(const ClassStep& step, const Rows& rows) {
    switch (step.n_classes) {
        case 4:
            return Step<1>(step, &rows, add_row<1, Rows>).make();
        case 8:
            return Step<2>(step, &rows, add_row<2, Rows>).make();
        case 12:
            return Step<3>(step, &rows, add_row<3, Rows>).make();
        default:
            return Step<4>(step, &rows, add_row<4, Rows>).make();
    }
}

}  // namespace

bool class_step(const ClassStep& step) {
    return with_sparse_rows(step.table, [&](const auto& rows) { return run_step(step, rows); });
}

}  // namespace mercer::MERCER_ISA
