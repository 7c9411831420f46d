// Sequential dual method for the joint multi-class machine on a block: examples one after the other, the subproblem of
// each solved exactly [Crammer & Singer 2001, section 5; Keerthi, Sundararajan, Chang, Hsieh & Lin 2008].
#pragma once

#include "dual/crammer_singer_problem.hpp"
#include "dual/simplex.hpp"
#include "gram/simd.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
class JointSteps {
    // An example moves only if its violation is at least this share of the worst violation in the last pass. Large
    // steps therefore come first.
    static constexpr double kShare = 0.5;

  public:
    explicit JointSteps(const JointProblem<Real>& block)
        : block_(block),
          padded_((block.size + kBlockPadding - 1) / kBlockPadding * kBlockPadding),
          memory_(sizeof(double) * static_cast<std::size_t>(block.n_classes * (padded_ + 4) + 1)),
          gradient_(memory_.as<double>()),
          slope_(gradient_ + block.n_classes * padded_),
          share_(slope_ + block.n_classes),
          target_(share_ + block.n_classes) {
        for (int64_t k = 0; k < block.n_classes; ++k)
            for (int64_t i = 0; i < padded_; ++i)
                gradient_[k * padded_ + i] = i < block.size ? block.gradient[i * block.n_classes + k] : 0.0;
    }

    BlockResult run(double tol, int64_t max_iter, double max_work) {
        BlockResult result{BlockEnd::limit, 0, 0.0};
        double work = 0.0, worst = 0.0;
        for (int64_t i = 0; i < block_.size; ++i) worst = __builtin_fmax(worst, violation_of(i));
        const double visit = 4.0 * static_cast<double>(block_.n_classes);
        while (result.end == BlockEnd::limit && result.n_iter < max_iter && work < max_work) {
            const double least = __builtin_fmax(tol, kShare * worst);
            const int64_t before = result.n_iter;
            bool moved = false;
            worst = 0.0;
            for (int64_t i = 0; i < block_.size; ++i) {
                const double violation = violation_of(i);
                worst = __builtin_fmax(worst, violation);
                work += visit;
                if (!(violation > least)) continue;
                if (result.n_iter == max_iter || work >= max_work) break;
                const int64_t n_changed = step(i);
                work += static_cast<double>(n_changed * padded_);
                moved = moved || n_changed > 0;
                ++result.n_iter;
            }
            if (result.n_iter == before && least <= tol)
                result.end = BlockEnd::solved;
            else if (result.n_iter > before && !moved)
                result.end = BlockEnd::stalled;
        }
        result.violation = 0.0;
        for (int64_t i = 0; i < block_.size; ++i) {
            result.violation = __builtin_fmax(result.violation, violation_of(i));
            for (int64_t k = 0; k < block_.n_classes; ++k) block_.gradient[i * block_.n_classes + k] = slope_[k];
        }
        if (result.violation <= tol) result.end = BlockEnd::solved;
        return result;
    }

  private:
    double upper(int64_t i, int64_t k) const { return k == block_.labels[i] ? block_.penalty[i] : 0.0; }

    // Reads gradient and t of an example, and returns its violation: the largest gradient minus the smallest gradient
    // of the classes with a positive share of C_i.
    double violation_of(int64_t i) {
        const double* beta = block_.beta + i * block_.n_classes;
        double most = -__builtin_inf(), least = __builtin_inf();
        for (int64_t k = 0; k < block_.n_classes; ++k) {
            const double g = slope_[k] = gradient_[k * padded_ + i];
            share_[k] = upper(i, k) - beta[k];
            most = __builtin_fmax(most, g);
            if (share_[k] > 0.0) least = __builtin_fmin(least, g);
        }
        return most - least;
    }

    // Solves the subproblem of the example of the last `violation_of`, and returns the number of classes whose beta
    // changed.
    int64_t step(int64_t i) {
        const Real* row = block_.matrix + i * block_.stride;
        const auto curvature = static_cast<double>(row[i]);
        if (curvature > 0.0)
            project(i, curvature);
        else
            take_steepest(block_.penalty[i]);
        return move(i, row);
    }

    void project(int64_t i, double curvature) {
        const int64_t label = block_.labels[i];
        for (int64_t k = 0; k < block_.n_classes; ++k)
            target_[k] = slope_[k] / curvature + (k == label ? -block_.beta[i * block_.n_classes + k] : share_[k]);
        project_beside(target_, block_.n_classes, label, block_.penalty[i]);
    }

    // If the objective has no positive curvature: gives all of C to the class with the largest gradient.
    void take_steepest(double total) {
        int64_t steepest = 0;
        for (int64_t k = 1; k < block_.n_classes; ++k)
            if (slope_[k] > slope_[steepest]) steepest = k;
        for (int64_t k = 0; k < block_.n_classes; ++k) target_[k] = k == steepest ? total : 0.0;
    }

    int64_t move(int64_t i, const Real* row) {
        write_shares(target_, block_.n_classes, block_.labels[i], block_.penalty[i], slope_);
        double* beta = block_.beta + i * block_.n_classes;
        int64_t n_changed = 0;
        for (int64_t k = 0; k < block_.n_classes; ++k) {
            const double change = slope_[k] - beta[k];
            if (change == 0.0) continue;
            beta[k] = slope_[k];
            ++n_changed;
            double* __restrict g = gradient_ + k * padded_;
            for (int64_t j = 0; j < padded_; ++j) g[j] += change * static_cast<double>(row[j]);
        }
        return n_changed;
    }

    const JointProblem<Real>& block_;
    int64_t padded_;
    Scratch memory_;
    double* gradient_;                  // gradients of all examples in the first class, then in the next class
    double *slope_, *share_, *target_;  // of one example: g (later the new beta), t, and the new t
};

}  // namespace mercer::MERCER_ISA
