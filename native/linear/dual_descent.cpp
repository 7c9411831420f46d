#include "linear/dual_descent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "linear/random_order.hpp"

namespace mercer {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kAhead = 4;           // rows; how far ahead rows are prefetched
constexpr int64_t kBetweenStops = 256;  // rows between two questions whether to stop

// A row as a loss sees it. `square` is ||x||^2 and `z` is the decision value.
struct Row {
    double target, charge, square, beta, z;
};

// The new coefficient of a row, and the state before the step: the row's share of the duality gap, and the violations
// of optimality in the directions in which the gradient of the dual is positive and negative.
struct Step {
    double beta;
    double gap;
    double up = 0.0, down = 0.0;
    bool shrinks = false;
};

// Bounds on the violations in the last epoch. A row at a bound is shrunken if its gradient is beyond them.
struct Thresholds {
    double up = kInfinite, down = -kInfinite;
};

// In the losses that classify, alpha = y beta >= 0, and the gradient is that of the minimised dual with respect to
// alpha.
struct Hinge {
    explicit Hinge(double) {}

    Step operator()(const Row& row, const Thresholds& last) const {
        const double alpha = row.target * row.beta, gradient = row.target * row.z - 1.0;
        Step step{row.beta, gradient > 0.0 ? alpha * gradient : (alpha - row.charge) * gradient};
        if (alpha <= 0.0) {
            step.shrinks = gradient > last.up;
            if (gradient >= 0.0) return step;
        } else if (alpha >= row.charge) {
            step.shrinks = gradient < last.down;
            if (gradient <= 0.0) return step;
        }
        (gradient > 0.0 ? step.up : step.down) = gradient;
        // A row of zeros has a linear objective, whose optimum is a bound.
        const double best = row.square > 0.0 ? alpha - gradient / row.square : gradient < 0.0 ? row.charge : 0.0;
        step.beta = row.target * std::clamp(best, 0.0, row.charge);
        return step;
    }
};

struct SquaredHinge {
    explicit SquaredHinge(double) {}

    Step operator()(const Row& row, const Thresholds& last) const {
        const double alpha = row.target * row.beta, twice = 2.0 * row.charge, margin = row.target * row.z;
        const double gradient = margin - 1.0 + alpha / twice;
        const double short_of = std::max(0.0, 1.0 - margin);
        Step step{row.beta, row.charge * short_of * short_of + alpha * (0.5 * alpha / twice + margin - 1.0)};
        if (alpha <= 0.0) {
            step.shrinks = gradient > last.up;
            if (gradient >= 0.0) return step;
        }
        (gradient > 0.0 ? step.up : step.down) = gradient;
        const double push = alpha * row.square + (1.0 - margin);
        step.beta = row.target * std::max(0.0, push / (row.square + 1.0 / twice));
        return step;
    }
};

// The optimum solves  square (C s(u) - alpha) + y z + u = 0  with s(u) = 1 / (1 + exp(-u)) and the new alpha C s(u).
// The left side rises in u with a slope of at least 1, so Newton steps within a bracket find the only root.
struct Logistic {
    explicit Logistic(double) {}

    static constexpr int kMost = 60;  // Newton steps; the bracket is halved where they leave it

    static double log1p_exp(double t) { return t > 0.0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t)); }
    static double x_log_x(double x) { return x > 0.0 ? x * std::log(x) : 0.0; }

    Step operator()(const Row& row, const Thresholds&) const {
        const double alpha = row.target * row.beta, margin = row.target * row.z, share = alpha / row.charge;
        Step step{row.beta, row.charge * (log1p_exp(-margin) + x_log_x(share) + x_log_x(1.0 - share)) + alpha * margin};
        double low = -margin - row.square * (row.charge - alpha), high = -margin + row.square * alpha;
        double u = 0.0 < share && share < 1.0 ? std::log(share / (1.0 - share)) : -margin;
        if (!(low < u && u < high)) u = 0.5 * (low + high);
        for (int k = 0; k < kMost; ++k) {
            const double e = std::exp(-std::abs(u)), s = (u >= 0.0 ? 1.0 : e) / (1.0 + e);
            const double value = row.square * (row.charge * s - alpha) + margin + u;
            (value > 0.0 ? high : low) = u;
            const double next = u - value / (row.square * row.charge * e / ((1.0 + e) * (1.0 + e)) + 1.0);
            const double last = u;
            u = low <= next && next <= high ? next : 0.5 * (low + high);
            if (std::abs(u - last) <= 1e-14 * (1.0 + std::abs(u))) break;
        }
        const double e = std::exp(-std::abs(u));
        step.beta = row.target * row.charge * ((u >= 0.0 ? 1.0 : e) / (1.0 + e));
        return step;
    }
};

double shrunk(double t, double by) { return t > by ? t - by : t < -by ? t + by : 0.0; }

// Both losses of regression; the gradients are those of the minimised dual with respect to beta.
template <bool squared>
struct Insensitive {
    explicit Insensitive(double epsilon) : epsilon(epsilon) {}

    Step operator()(const Row& row, const Thresholds& last) const {
        const double residual = row.target - row.z, twice = 2.0 * row.charge;
        const double bend = squared ? row.beta / twice : 0.0, excess = std::max(0.0, std::abs(residual) - epsilon);
        const double loss = squared ? excess * excess : excess;
        Step step{row.beta, row.charge * loss + row.beta * (0.5 * bend - residual) + epsilon * std::abs(row.beta)};
        const double rising = bend - residual + epsilon, falling = bend - residual - epsilon;
        if (row.beta == 0.0) {
            step.shrinks = rising > last.up && falling < last.down;
            if (rising >= 0.0 && falling <= 0.0) return step;
            (rising < 0.0 ? step.down : step.up) = rising < 0.0 ? rising : falling;
        } else if (!squared && row.beta >= row.charge && rising <= 0.0) {
            step.shrinks = rising < last.down;
            return step;
        } else if (!squared && row.beta <= -row.charge && falling >= 0.0) {
            step.shrinks = falling > last.up;
            return step;
        } else {
            const double gradient = row.beta > 0.0 ? rising : falling;
            (gradient > 0.0 ? step.up : step.down) = gradient;
        }
        const double push = shrunk(row.beta * row.square + residual, epsilon);
        if (squared)
            step.beta = push / (row.square + 1.0 / twice);
        else if (row.square > 0.0)
            step.beta = std::clamp(push / row.square, -row.charge, row.charge);
        else
            step.beta = push == 0.0 ? 0.0 : std::copysign(row.charge, push);
        return step;
    }

    double epsilon;
};

template <class Rows, class Loss>
class Descent final : public DualDescent {
  public:
    Descent(const Rows& rows, const DescentProblem& problem)
        : rows_(rows), problem_(problem), loss_(problem.epsilon), order_(problem.seed) {
        squares_.resize(static_cast<std::size_t>(rows.n));
        active_.reserve(static_cast<std::size_t>(rows.n));
        for (int64_t i = 0; i < rows.n; ++i) {
            double sum = problem.constant * problem.constant;
            rows.each(i, [&](int64_t, double x) { sum += x * x; });
            squares_[static_cast<std::size_t>(i)] = sum;
            largest_square_ = std::max(largest_square_, sum);
            if (problem.charges[i] > 0.0) active_.push_back(i);
        }
        n_active_ = static_cast<int64_t>(active_.size());
    }

    double largest_square() const override { return largest_square_; }

    DescentReport run(int64_t most, double target) override {
        DescentReport report{0, 0, 0.0, n_active_, active_.empty()};
        while (report.n_epochs < most && !report.is_finished) {
            const bool is_whole = n_active_ == static_cast<int64_t>(active_.size());
            const bool is_complete = epoch(report);
            ++report.n_epochs;
            report.n_active = n_active_;
            if (!is_complete) break;
            if (!(report.gap <= target)) continue;
            report.is_finished = is_whole;
            n_active_ = static_cast<int64_t>(active_.size());
            thresholds_ = {};
        }
        return report;
    }

  private:
    // Visits the active rows once, in random order; returns whether it came to the end.
    bool epoch(DescentReport& report) {
        order_.shuffle(active_.data(), n_active_);
        Thresholds found{0.0, 0.0};
        report.gap = 0.0;
        for (int64_t k = 0; k < n_active_; ++k) {
            if (report.n_steps % kBetweenStops == 0 && problem_.stop && problem_.stop(problem_.stop_context))
                return false;
            if (k + kAhead < n_active_) rows_.prefetch(active_[static_cast<std::size_t>(k + kAhead)]);
            const int64_t i = active_[static_cast<std::size_t>(k)];
            const Step step = visit(i);
            ++report.n_steps;
            report.gap += step.gap;
            found.up = std::max(found.up, step.up), found.down = std::min(found.down, step.down);
            if (step.shrinks) {
                --n_active_;
                std::swap(active_[static_cast<std::size_t>(k)], active_[static_cast<std::size_t>(n_active_)]);
                --k;
            }
        }
        thresholds_.up = found.up > 0.0 ? found.up : kInfinite;
        thresholds_.down = found.down < 0.0 ? found.down : -kInfinite;
        return true;
    }

    Step visit(int64_t i) {
        double* bias = problem_.w + rows_.p;
        const double constant = problem_.constant, beta = problem_.beta[i];
        const double z = rows_.dot(i, problem_.w) + (constant == 0.0 ? 0.0 : constant * *bias);
        const double square = squares_[static_cast<std::size_t>(i)];
        const Step step = loss_(Row{problem_.targets[i], problem_.charges[i], square, beta, z}, thresholds_);
        const double change = step.beta - beta;
        if (change != 0.0) {
            problem_.beta[i] = step.beta;
            rows_.each(i, [&](int64_t j, double x) { problem_.w[j] += change * x; });
            if (constant != 0.0) *bias += change * constant;
        }
        return step;
    }

    Rows rows_;
    DescentProblem problem_;
    Loss loss_;
    RandomOrder order_;
    std::vector<double> squares_;
    std::vector<int64_t> active_;  // the first n_active_ are not shrunken
    int64_t n_active_ = 0;
    double largest_square_ = 0.0;
    Thresholds thresholds_;
};

}  // namespace

template <class Rows>
std::unique_ptr<DualDescent> make_dual_descent(const Rows& rows, const DescentProblem& problem) {
    switch (problem.loss) {
        case LinearLoss::hinge:
            return std::make_unique<Descent<Rows, Hinge>>(rows, problem);
        case LinearLoss::squared_hinge:
            return std::make_unique<Descent<Rows, SquaredHinge>>(rows, problem);
        case LinearLoss::logistic:
            return std::make_unique<Descent<Rows, Logistic>>(rows, problem);
        case LinearLoss::epsilon_insensitive:
            return std::make_unique<Descent<Rows, Insensitive<false>>>(rows, problem);
        case LinearLoss::squared_epsilon_insensitive:
            return std::make_unique<Descent<Rows, Insensitive<true>>>(rows, problem);
    }
    return nullptr;
}

using Made = std::unique_ptr<DualDescent>;
#define MERCER_ROWS(Value)                                                                              \
    template Made make_dual_descent(const DenseRows<Value>&, const DescentProblem&);                    \
    template Made make_dual_descent(const SparseRows<Value, int32_t, int32_t>&, const DescentProblem&); \
    template Made make_dual_descent(const SparseRows<Value, int32_t, int64_t>&, const DescentProblem&); \
    template Made make_dual_descent(const SparseRows<Value, int64_t, int64_t>&, const DescentProblem&);
MERCER_ROWS(float)
MERCER_ROWS(double)
MERCER_ROWS(int8_t)
#undef MERCER_ROWS

}  // namespace mercer
