#include "rows/joint_descent.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "dual/simplex.hpp"
#include "rows/row_readers.hpp"
#include "rows/shrinking_epochs.hpp"

namespace mercer {
namespace {

template <class Rows>
class JointRow {
  public:
    JointRow(const Rows& rows, const JointDescentProblem& problem)
        : rows_(rows),
          problem_(problem),
          squares_(squares_of(rows)),
          gradient_(static_cast<std::size_t>(problem.n_classes)),
          shares_(gradient_.size()),
          moved_(gradient_.size()),
          classes_(gradient_.size()) {}

    double largest_square() const { return largest_of(squares_); }
    void prefetch(int64_t i) const { rows_.prefetch(i); }

    Visit visit(int64_t i, const Thresholds& last) {
        const int64_t n_classes = problem_.n_classes, label = problem_.codes[i];
        const double charge = problem_.charges[i], square = squares_[static_cast<std::size_t>(i)];
        double* beta = problem_.beta + i * n_classes;
        double* gradient = gradient_.data();
        compute_gradient(i, label);
        // The shares t_k = C [k = y] - beta_k are nonnegative and have sum C.
        double most = gradient[0], second = -std::numeric_limits<double>::infinity(), least = most;
        bool is_first = true;
        int64_t n_shares = 0;
        for (int64_t k = 1; k < n_classes; ++k) {
            second = std::max(second, std::min(most, gradient[k]));
            most = std::max(most, gradient[k]);
        }
        Visit visit;
        for (int64_t k = 0; k < n_classes; ++k) {
            const double share = (k == label ? charge : 0.0) - beta[k];
            if (!(share > 0.0)) continue;
            ++n_shares;
            least = is_first ? gradient[k] : std::min(least, gradient[k]);
            is_first = false;
            visit.gap += share * (most - gradient[k]);
        }
        visit.up = most - least;
        if (visit.up <= 0.0) {
            visit.shrinks = n_shares == 1 && most - second > last.up;
            return visit;
        }
        if (square > 0.0) {
            for (int64_t k = 0; k < n_classes; ++k)
                shares_[static_cast<std::size_t>(k)] = gradient[k] / square - beta[k];
            baseline::project_beside(shares_.data(), n_classes, label, charge);
        } else {  // a row of zeros has a linear objective: its whole share goes to a class with the largest gradient
            std::fill(shares_.begin(), shares_.end(), 0.0);
            *(shares_.begin() + (std::max_element(gradient, gradient + n_classes) - gradient)) = charge;
        }
        std::copy(beta, beta + n_classes, moved_.begin());
        baseline::write_shares(shares_.data(), n_classes, label, charge, beta);
        for (int64_t k = 0; k < n_classes; ++k)
            moved_[static_cast<std::size_t>(k)] = beta[k] - moved_[static_cast<std::size_t>(k)];
        follow(i);
        return visit;
    }

  private:
    // gradient_k = z_k + [k != y]
    void compute_gradient(int64_t i, int64_t label) {
        const int64_t n_classes = problem_.n_classes;
        double* gradient = gradient_.data();
        std::fill(gradient_.begin(), gradient_.end(), 1.0);
        gradient[label] = 0.0;
        const auto add = [&](int64_t j, double x) {
            const double* w = problem_.w + j * n_classes;
            for (int64_t k = 0; k < n_classes; ++k) gradient[k] += x * w[k];
        };
        rows_.each(i, add);
    }

    // Adds moved_k x_i to the weights of every class whose coefficient has moved.
    void follow(int64_t i) {
        const int64_t n_classes = problem_.n_classes;
        int64_t count = 0;
        for (int64_t k = 0; k < n_classes; ++k)
            if (moved_[static_cast<std::size_t>(k)] != 0.0) classes_[static_cast<std::size_t>(count++)] = k;
        const auto add = [&](int64_t j, double x) {
            double* w = problem_.w + j * n_classes;
            for (int64_t at = 0; at < count; ++at) {
                const int64_t k = classes_[static_cast<std::size_t>(at)];
                w[k] += x * moved_[static_cast<std::size_t>(k)];
            }
        };
        rows_.each(i, add);
    }

    Rows rows_;
    JointDescentProblem problem_;
    std::vector<double> squares_;
    std::vector<double> gradient_, shares_, moved_;  // of the classes of a row
    std::vector<int64_t> classes_;
};

}  // namespace

std::unique_ptr<DualDescent> make_joint_descent(const LinearTable& table, const JointDescentProblem& problem) {
    std::unique_ptr<DualDescent> made;
    with_row_reader(table, [&]<class Rows>(const Rows& rows) {
        if (!all_in_range(rows)) return;
        made = std::make_unique<ShrinkingEpochs<JointRow<Rows>>>(JointRow<Rows>(rows, problem), rows.table.n_rows,
                                                                 problem.charges, problem.seed, problem.stop,
                                                                 problem.stop_context);
    });
    return made;
}

}  // namespace mercer
