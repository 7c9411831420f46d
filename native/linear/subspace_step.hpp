// Steps between epochs of dual coordinate descent: the best combination of the changes of the last two epochs. Epochs
// alone need many passes if C is large. With these steps, they are the preconditioner of a conjugate gradient method
// (locally optimal, as in LOBPCG [Knyazev 2001]) on the face of the coefficients that are strictly between their
// bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linear/dual_descent.hpp"

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
            last_ = {std::vector<double>(beta_.size()), std::vector<double>(w_.size())};
            now_ = last_, moved_w_.resize(w_.size());
            return;
        }
        for (std::size_t i = 0; i < beta_.size(); ++i) now_.beta[i] = problem_.beta[i] - beta_[i];
        for (std::size_t j = 0; j < w_.size(); ++j) now_.w[j] = problem_.w[j] - w_[j];
        keep_free(now_), keep_free(last_);
        move();
        for (std::size_t i = 0; i < beta_.size(); ++i) {
            last_.beta[i] = problem_.beta[i] - beta_[i];
            beta_[i] = problem_.beta[i];
        }
        for (std::size_t j = 0; j < w_.size(); ++j) {
            last_.w[j] = problem_.w[j] - w_[j];
            w_[j] = problem_.w[j];
        }
    }

  private:
    // A change of the coefficients, and that of w.
    struct Change {
        std::vector<double> beta, w;
    };

    double sign(double t) const { return t > 0.0 ? 1.0 : t < 0.0 ? -1.0 : 0.0; }
    double bend(int64_t i) const { return is_squared_ ? 0.5 / problem_.charges[i] : 0.0; }
    bool is_free(int64_t i) const {
        const double size = std::abs(problem_.beta[i]);
        return size > 0.0 && (is_squared_ || size < problem_.charges[i]);
    }

    void keep_free(Change& change) const {
        for (int64_t i = 0; i < rows_.table.n_rows; ++i) {
            double& own = change.beta[static_cast<std::size_t>(i)];
            if (own == 0.0 || is_free(i)) continue;
            rows_.each(i, [&](int64_t j, double x) { change.w[static_cast<std::size_t>(j)] -= own * x; });
            own = 0.0;
        }
    }

    // Moves along both changes to the maximum of the dual objective; coefficients stop at their bounds.
    void move() {
        double slope[2] = {}, a = 0.0, b = 0.0, c = 0.0;
        for (int64_t i = 0; i < rows_.table.n_rows; ++i) {
            const double one = now_.beta[static_cast<std::size_t>(i)], two = last_.beta[static_cast<std::size_t>(i)];
            if (one == 0.0 && two == 0.0) continue;
            const double linear = slope_of(i), curvature = bend(i);
            slope[0] += one * linear, slope[1] += two * linear;
            a += curvature * one * one, b += curvature * one * two, c += curvature * two * two;
        }
        for (std::size_t j = 0; j < w_.size(); ++j) {
            const double one = now_.w[j], two = last_.w[j];
            slope[0] -= one * problem_.w[j], slope[1] -= two * problem_.w[j];
            a += one * one, b += one * two, c += two * two;
        }
        if (!(a > 0.0)) return;
        const double determinant = a * c - b * b;
        const bool both = determinant > kLeastAngle * a * c;
        const double s = both ? (c * slope[0] - b * slope[1]) / determinant : slope[0] / a,
                     t = both ? (a * slope[1] - b * slope[0]) / determinant : 0.0;
        // The rounding errors of w are multiplied by these factors.
        if (!(std::max(std::abs(s), std::abs(t)) <= kMostLength)) return;
        for (std::size_t j = 0; j < w_.size(); ++j) moved_w_[j] = problem_.w[j] + s * now_.w[j] + t * last_.w[j];
        double growth = 0.0, square = 0.0;
        for (int64_t i = 0; i < rows_.table.n_rows; ++i) {
            const double change = change_of(i, s, t), near = feasible(i, change), change_made = near - problem_.beta[i];
            if (change == 0.0) continue;
            growth += change_made * (slope_of(i) - 0.5 * bend(i) * change_made);
            const double missing = change_made - change;
            if (missing != 0.0)
                rows_.each(i, [&](int64_t j, double x) { moved_w_[static_cast<std::size_t>(j)] += missing * x; });
        }
        for (std::size_t j = 0; j < w_.size(); ++j) {
            growth -= 0.5 * (moved_w_[j] - problem_.w[j]) * (moved_w_[j] + problem_.w[j]);
            square += problem_.w[j] * problem_.w[j];
        }
        if (!(growth > kLeastGrowth * square)) return;
        for (int64_t i = 0; i < rows_.table.n_rows; ++i) {
            const double change = change_of(i, s, t);
            if (change != 0.0) problem_.beta[i] = feasible(i, change);
        }
        std::copy(moved_w_.begin(), moved_w_.end(), problem_.w);
    }

    // The derivative of what the row adds to the dual objective.
    double slope_of(int64_t i) const {
        return problem_.targets[i] - problem_.epsilon * sign(problem_.beta[i]) - bend(i) * problem_.beta[i];
    }

    double change_of(int64_t i, double s, double t) const {
        return s * now_.beta[static_cast<std::size_t>(i)] + t * last_.beta[static_cast<std::size_t>(i)];
    }

    double feasible(int64_t i, double change) const {
        const double before = problem_.beta[i], after = before + change;
        if (before * after <= 0.0) return 0.0;
        return is_squared_ ? after : std::clamp(after, -problem_.charges[i], problem_.charges[i]);
    }

    static constexpr double kLeastAngle = 1e-8;  // squared sine of the angle between changes that are independent

    static constexpr double kMostLength = 1e3;
    static constexpr double kLeastGrowth = 1e-11;  // of the dual objective, as a share of ||w||^2; less is rounding

    Rows rows_;
    DescentProblem problem_;
    bool is_squared_;
    int64_t n_columns_;
    std::vector<double> beta_, w_;  // after the last step
    Change last_, now_;
    std::vector<double> moved_w_;
};

}  // namespace mercer
