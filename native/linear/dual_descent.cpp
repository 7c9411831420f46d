#include "linear/dual_descent.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "linear/row_readers.hpp"
#include "linear/shrinking_epochs.hpp"
#include "linear/subspace_step.hpp"

namespace mercer {
namespace {

// A row as a loss sees it. `square` is ||x||^2 and `z` is the decision value.
struct Row {
    double target, charge, square, beta, z;
};

// The new coefficient of a row, and the state before the step.
struct Step : Visit {
    Step(double beta, double gap) : beta(beta) { this->gap = gap; }
    double beta;
};

// In the losses that classify, alpha = y beta >= 0, and the gradient is that of the minimised dual with respect to
// alpha.
struct Hinge {
    static constexpr bool kIsQuadratic = true, kIsSquared = false;

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
    static constexpr bool kIsQuadratic = true, kIsSquared = true;

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
    static constexpr bool kIsQuadratic = false, kIsSquared = false;

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
    static constexpr bool kIsQuadratic = true, kIsSquared = squared;

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
class Coordinate {
  public:
    Coordinate(const Rows& rows, const DescentProblem& problem)
        : rows_(rows),
          problem_(problem),
          loss_(problem.epsilon),
          squares_(squares_of(rows)),
          steps_(rows, problem, Loss::kIsSquared) {}

    double largest_square() const { return largest_of(squares_); }
    void prefetch(int64_t i) const { rows_.prefetch(i); }

    void between_epochs() {
        if constexpr (Loss::kIsQuadratic)
            if (++n_epochs_ > kAlone) steps_.step();
    }

    Visit visit(int64_t i, const Thresholds& last) {
        const double beta = problem_.beta[i], z = rows_.dot(i, problem_.w);
        const double square = squares_[static_cast<std::size_t>(i)];
        const Step step = loss_(Row{problem_.targets[i], problem_.charges[i], square, beta, z}, last);
        const double change = step.beta - beta;
        if (change != 0.0) {
            problem_.beta[i] = step.beta;
            rows_.each(i, [&](int64_t j, double x) { problem_.w[j] += change * x; });
        }
        return step;
    }

  private:
    static constexpr int64_t kAlone = 8;  // epochs without steps: until then, many coefficients move to bounds

    Rows rows_;
    DescentProblem problem_;
    Loss loss_;
    std::vector<double> squares_;
    SubspaceSteps<Rows> steps_;
    int64_t n_epochs_ = 0;
};

template <class Loss, class Rows>
std::unique_ptr<DualDescent> descent(const Rows& rows, const DescentProblem& problem) {
    return std::make_unique<ShrinkingEpochs<Coordinate<Rows, Loss>>>(Coordinate<Rows, Loss>(rows, problem),
                                                                     rows.table.n_rows, problem.charges, problem.seed,
                                                                     problem.stop, problem.stop_context);
}

template <class Rows>
std::unique_ptr<DualDescent> of_loss(const Rows& rows, const DescentProblem& problem) {
    switch (problem.loss) {
        case LinearLoss::hinge:
            return descent<Hinge>(rows, problem);
        case LinearLoss::squared_hinge:
            return descent<SquaredHinge>(rows, problem);
        case LinearLoss::logistic:
            return descent<Logistic>(rows, problem);
        case LinearLoss::epsilon_insensitive:
            return descent<Insensitive<false>>(rows, problem);
        case LinearLoss::squared_epsilon_insensitive:
            return descent<Insensitive<true>>(rows, problem);
    }
    return nullptr;
}

}  // namespace

std::unique_ptr<DualDescent> make_dual_descent(const LinearTable& table, const DescentProblem& problem) {
    std::unique_ptr<DualDescent> made;
    with_row_reader(table, [&](const auto& rows) {
        if (all_in_range(rows)) made = of_loss(rows, problem);
    });
    return made;
}

}  // namespace mercer
