// Steps between epochs of dual coordinate descent: the best combination of the changes of the last two epochs. Epochs
// alone need many passes if C is large. With these steps, they are the preconditioner of a conjugate gradient method
// (locally optimal, as in LOBPCG [Knyazev 2001]) on the face of the coefficients that are strictly between their
// bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rows/chained_sum.hpp"
#include "rows/dual_descent.hpp"

namespace mercer {

// For losses whose dual objective is quadratic while no coefficient changes its sign. If `is_squared`, coefficients
// have no upper bound.
template <class Rows>
class SubspaceSteps {
  public:
    SubspaceSteps(const Rows& rows, const DescentProblem& problem, bool is_squared)
        : rows_(rows), problem_(problem), is_squared_(is_squared), n_columns_(rows.table.width()) {}

    // Makes a step if the dual objective grows. To be called between two epochs.
    void step() {
        if (beta_.empty()) {
            beta_.assign(problem_.beta, problem_.beta + rows_.table.n_rows);
            w_.assign(problem_.w, problem_.w + n_columns_);
            last_beta_.resize(beta_.size()), last_w_.resize(w_.size()), now_w_.resize(w_.size());
            return;
        }
        find_moving();
        move();
        for (const Moving& row : moving_) {
            const auto at = static_cast<std::size_t>(row.i);
            last_beta_[at] = problem_.beta[row.i] - beta_[at];
        }
        std::copy(problem_.beta, problem_.beta + rows_.table.n_rows, beta_.begin());
        std::copy(problem_.w, problem_.w + n_columns_, w_.begin());
    }

  private:
    // A row whose coefficient is strictly between its bounds, and its changes by the last epoch and by the last step
    // with the epoch before it.
    struct Moving {
        int64_t i;
        double now, last;
        double slope, bend;  // of what the row adds to the dual objective
    };

    double sign(double t) const { return t > 0.0 ? 1.0 : t < 0.0 ? -1.0 : 0.0; }
    bool is_free(int64_t i) const {
        const double size = std::abs(problem_.beta[i]);
        return size > 0.0 && (is_squared_ || size < problem_.charges[i]);
    }

    void add(int64_t i, double factor, std::vector<double>& to) const {
        if (factor != 0.0) rows_.each(i, [&](int64_t j, double x) { to[static_cast<std::size_t>(j)] += factor * x; });
    }

    // Lists the rows that move. Coefficients at bounds take no part in the changes: that of w by the last epoch will be
    // the difference from w_.
    void find_moving() {
        moving_.clear();
        for (int64_t i = 0; i < rows_.table.n_rows; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const double beta = problem_.beta[i], now = beta - beta_[at], last = last_beta_[at];
            if (now == 0.0 && last == 0.0) continue;
            if (is_free(i)) {
                const double bend = is_squared_ ? 0.5 / problem_.charges[i] : 0.0;
                moving_.push_back(
                    {i, now, last, problem_.targets[i] - problem_.epsilon * sign(beta) - bend * beta, bend});
            } else {
                add(i, now, w_), add(i, -last, last_w_);
                last_beta_[at] = 0.0;
            }
        }
    }

    // Moves along both changes to the maximum of the dual objective, if it grows; coefficients stop at their bounds.
    // last_w_ becomes the change of w by the epoch and the step.
    void move() {
        double slope[2] = {}, a = 0.0, b = 0.0, c = 0.0;
        for (const Moving& row : moving_) {
            slope[0] += row.now * row.slope, slope[1] += row.last * row.slope;
            a += row.bend * row.now * row.now, b += row.bend * row.now * row.last, c += row.bend * row.last * row.last;
        }
        Sums sums = sums_of_changes();
        slope[0] -= sums.pull[0], slope[1] -= sums.pull[1];
        a += sums.now, b += sums.both, c += sums.last;
        const double determinant = a * c - b * b;
        const bool both = determinant > kLeastAngle * a * c;
        const double s = both ? (c * slope[0] - b * slope[1]) / determinant : slope[0] / a,
                     t = both ? (a * slope[1] - b * slope[0]) / determinant : 0.0;
        // The rounding errors of w are multiplied by these factors.
        if (!(a > 0.0 && std::max(std::abs(s), std::abs(t)) <= kMostLength)) {
            last_w_ = now_w_;
            return;
        }
        const auto wanted = [=](const Moving& row) { return s * row.now + t * row.last; };
        double* step = last_w_.data();
        for (int64_t j = 0; j < n_columns_; ++j) step[j] = s * now_w_[static_cast<std::size_t>(j)] + t * step[j];
        double growth = 0.0;
        for (const Moving& row : moving_) {
            const double before = problem_.beta[row.i], near = feasible(row.i, before + wanted(row));
            growth += (near - before) * (row.slope - 0.5 * row.bend * (near - before));
            add(row.i, near - (before + wanted(row)), last_w_);
        }
        growth -=
            baseline::chained_sum<4>(n_columns_, [&](int64_t j) { return step[j] * (problem_.w[j] + 0.5 * step[j]); });
        const bool grows = growth > kLeastGrowth * sums.square;
        for (const Moving& row : moving_)
            if (grows) problem_.beta[row.i] = feasible(row.i, problem_.beta[row.i] + wanted(row));
        for (int64_t j = 0; j < n_columns_; ++j) {
            const double made = grows ? step[j] : 0.0;
            problem_.w[j] += made;
            step[j] = now_w_[static_cast<std::size_t>(j)] + made;
        }
    }

    // Products of w and its changes: of w with each, of the changes with one another, and ||w||^2.
    struct Sums {
        double pull[2], now, both, last, square;
    };

    // Sets now_w_ to the change of w by the last epoch.
    Sums sums_of_changes() {
        constexpr int kChains = 4, kKinds = 6;  // an addition waits for the previous one in its chain
        double sums[kKinds][kChains] = {};
        const double *w = problem_.w, *before = w_.data(), *last = last_w_.data();
        double* now = now_w_.data();
        const auto see = [&](int64_t j, int chain) {
            const double one = w[j] - before[j], two = last[j];
            now[j] = one;
            sums[0][chain] += w[j] * one, sums[1][chain] += w[j] * two;
            sums[2][chain] += one * one, sums[3][chain] += one * two, sums[4][chain] += two * two;
            sums[5][chain] += w[j] * w[j];
        };
        int64_t j = 0;
        for (; j + kChains <= n_columns_; j += kChains)
            for (int chain = 0; chain < kChains; ++chain) see(j + chain, chain);
        for (; j < n_columns_; ++j) see(j, 0);
        double total[kKinds];
        for (int kind = 0; kind < kKinds; ++kind) total[kind] = baseline::pairwise_sum<kChains>(sums[kind]);
        return {{total[0], total[1]}, total[2], total[3], total[4], total[5]};
    }

    double feasible(int64_t i, double after) const {
        if (problem_.beta[i] * after <= 0.0) return 0.0;
        return is_squared_ ? after : std::clamp(after, -problem_.charges[i], problem_.charges[i]);
    }

    static constexpr double kLeastAngle = 1e-8;  // squared sine of the angle between changes that are independent

    static constexpr double kMostLength = 1e3;
    static constexpr double kLeastGrowth = 1e-11;  // of the dual objective, as a share of ||w||^2; less is rounding

    Rows rows_;
    DescentProblem problem_;
    bool is_squared_;
    int64_t n_columns_;
    std::vector<double> beta_, w_;            // after the last step
    std::vector<double> last_beta_, last_w_;  // changes by the last step and the epoch before it
    std::vector<double> now_w_;               // change of w by the last epoch
    std::vector<Moving> moving_;
};

}  // namespace mercer
