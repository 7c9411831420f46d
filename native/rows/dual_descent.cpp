#include "rows/dual_descent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rows/row_readers.hpp"
#include "rows/shrinking_epochs.hpp"
#include "rows/subspace_step.hpp"

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

    Hinge(const DescentProblem&, int64_t) {}

    Step operator()(int64_t, const Row& row, const Thresholds& last) const {
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

    SquaredHinge(const DescentProblem&, int64_t) {}

    Step operator()(int64_t, const Row& row, const Thresholds& last) const {
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

// The optimum solves  value(u) = square (C s(u) - alpha) + y z + u = 0  with s(u) = 1 / (1 + exp(-u)) and the new alpha
// C s(u). The value rises in u with a slope of at least 1, so Newton steps within a bracket find the only root. They
// start at the u of the current alpha, which is stored, so that the first of them needs no exponential. The gap is C
// times the difference of ln(1 + exp(t)) at t = -y z from its tangent at u.
class Logistic {
  public:
    static constexpr bool kIsQuadratic = false, kIsSquared = false;

    Logistic(const DescentProblem& problem, int64_t n) : logits_(static_cast<std::size_t>(n)) {
        for (int64_t i = 0; i < n; ++i) {
            const double share = problem.targets[i] * problem.beta[i] / problem.charges[i];
            logits_[static_cast<std::size_t>(i)] = std::log(share / (1.0 - share));  // not finite at a bound
        }
    }

    Step operator()(int64_t i, const Row& row, const Thresholds&) {
        const double alpha = row.target * row.beta, margin = row.target * row.z, share = alpha / row.charge;
        const double low = -margin - row.square * (row.charge - alpha), high = -margin + row.square * alpha;
        double& logit = logits_[static_cast<std::size_t>(i)];
        Step step{row.beta, 0.0};
        double s = 0.0;
        if (std::isfinite(logit)) {
            const double bend = share * (1.0 - share), beyond = -margin - logit;
            step.gap = row.charge * (std::abs(beyond) < kNear
                                         ? beyond * beyond * bend * (0.5 + beyond * (1.0 - 2.0 * share) / 6.0)
                                         : log1p_exp(-margin) - log1p_exp(logit) - share * beyond);
            const double u = logit + beyond / (row.square * row.charge * bend + 1.0);
            s = root(row, alpha, margin, low, high, kShare * std::abs(beyond), u, logit);
        } else {
            step.gap = row.charge * (share > 0.5 ? log1p_exp(-margin) + margin : log1p_exp(-margin));
            s = root(row, alpha, margin, low, high, kShare, -margin, logit);
        }
        step.beta = row.target * row.charge * s;
        return step;
    }

  private:
    static constexpr int kMost = 120;        // steps
    static constexpr double kNear = 0.3;     // distance up to which the gap is that of a polynomial, within a hundredth
    static constexpr double kShare = 1e-2;   // of the value before the step, or of 1 at a bound, which may be left
    static constexpr double kLeast = 1e-14;  // relative change of u that counts as none

    static double log1p_exp(double t) { return t > 0.0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t)); }

    // Finds u between low and high with |value(u)| at most `enough`, from u; sets `minimiser` to it and returns s(u). A
    // step of Newton's method that does not halve the value is followed by one that halves the bracket: where s is
    // flat, such steps may go back and forth.
    static double root(const Row& row, double alpha, double margin, double low, double high, double enough, double u,
                       double& minimiser) {
        if (!(low < u && u < high)) u = 0.5 * (low + high);
        double before = std::numeric_limits<double>::infinity();
        for (int k = 0;; ++k) {
            const double e = std::exp(-std::abs(u)), s = (u >= 0.0 ? 1.0 : e) / (1.0 + e);
            const double value = row.square * (row.charge * s - alpha) + margin + u, size = std::abs(value);
            (value > 0.0 ? high : low) = u;
            double next = u - value / (row.square * row.charge * e / ((1.0 + e) * (1.0 + e)) + 1.0);
            if (!(low < next && next < high && 2.0 * size <= before)) next = 0.5 * (low + high);
            if (k == kMost || size <= enough || std::abs(next - u) <= kLeast * (1.0 + std::abs(u))) {
                minimiser = u;
                return s;
            }
            before = size;
            u = next;
        }
    }

    std::vector<double> logits_;  // ln(s / (1 - s)) of the share s = alpha / C of each row
};

double shrunk(double t, double by) { return t > by ? t - by : t < -by ? t + by : 0.0; }

// Both losses of regression; the gradients are those of the minimised dual with respect to beta.
template <bool squared>
struct Insensitive {
    static constexpr bool kIsQuadratic = true, kIsSquared = squared;

    Insensitive(const DescentProblem& problem, int64_t) : epsilon(problem.epsilon) {}

    Step operator()(int64_t, const Row& row, const Thresholds& last) const {
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
          loss_(problem, rows.table.n_rows),
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
        const Step step = loss_(i, Row{problem_.targets[i], problem_.charges[i], square, beta, z}, last);
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
