// Conjugate gradients for the joint multi-class machine. They find the minimiser of the current face, on which classes
// without a share of C_i stay at 0. Steps on single examples find the face quickly but converge slowly on it.
#pragma once

#include "dual/crammer_singer_problem.hpp"
#include "dual/simplex.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
class JointFace {
    static constexpr double kFlat = 1e-14;  // share of the largest k(x, x) below which curvature is rounding error
    // The minimisation ends when the gradient along the face has fallen to this share of its initial size.
    static constexpr double kShare = 1e-2;

  public:
    explicit JointFace(const JointProblem<Real>& block)
        : block_(block),
          padded_((block.size + kBlockPadding - 1) / kBlockPadding * kBlockPadding),
          length_(block.n_classes * padded_),
          memory_(sizeof(double) * static_cast<std::size_t>(5 * length_ + 2 * block.n_classes + 1)),
          residual_(memory_.as<double>()),
          direction_(residual_ + length_),
          product_(direction_ + length_),
          change_(product_ + length_),
          image_(change_ + length_),
          shares_(image_ + length_),
          moved_(shares_ + block.n_classes) {
        for (int64_t e = 0; e < 5 * length_; ++e) residual_[e] = 0.0;
        for (int64_t i = 0; i < block.size; ++i) {
            const auto diagonal = static_cast<double>(block.matrix[i * block.stride + i]);
            largest_ = diagonal > largest_ ? diagonal : largest_;
        }
    }

    BlockResult run(double tol, int64_t max_iter) {
        BlockResult result{BlockEnd::limit, 0, 0.0};
        find_residual();
        double squares = inner(residual_, residual_);
        const double enough = kShare * kShare * squares;
        for (int64_t e = 0; e < length_; ++e) direction_[e] = residual_[e];
        while (squares > enough && result.n_iter < max_iter) {
            if (block_.stop != nullptr && block_.stop(block_.stop_context)) break;
            multiply(direction_, product_);
            ++result.n_iter;
            const double curvature = inner(direction_, product_);
            if (!(curvature >
                  kFlat * largest_ * squares)) {  // no curvature along this direction: go beyond the feasible set
                add(far());
                break;
            }
            add(squares / curvature);
            for (int64_t e = 0; e < length_; ++e) residual_[e] -= squares / curvature * product_[e];
            centre(residual_);
            const double next = inner(residual_, residual_);
            for (int64_t e = 0; e < length_; ++e) direction_[e] = residual_[e] + next / squares * direction_[e];
            squares = next;
        }
        take();
        for (int64_t i = 0; i < block_.size; ++i) {
            const double violation = violation_of(i);
            result.violation = violation > result.violation ? violation : result.violation;
        }
        if (result.violation <= tol) result.end = BlockEnd::solved;
        return result;
    }

  private:
    double upper(int64_t i, int64_t k) const { return k == block_.labels[i] ? block_.penalty[i] : 0.0; }
    double share(int64_t i, int64_t k) const { return upper(i, k) - block_.beta[i * block_.n_classes + k]; }

    double violation_of(int64_t i) const {
        const double* g = block_.gradient + i * block_.n_classes;
        double most = -__builtin_inf(), least = __builtin_inf();
        for (int64_t k = 0; k < block_.n_classes; ++k) {
            most = g[k] > most ? g[k] : most;
            if (share(i, k) > 0.0 && g[k] < least) least = g[k];
        }
        return most - least;
    }

    // Arrays of this class have all examples in the first class, then in the next class.
    void find_residual() {
        for (int64_t k = 0; k < block_.n_classes; ++k)
            for (int64_t i = 0; i < block_.size; ++i)
                residual_[k * padded_ + i] = -block_.gradient[i * block_.n_classes + k];
        centre(residual_);
    }

    // Projects onto the face: 0 in classes without a share, minus the mean in the others.
    void centre(double* array) const {
        for (int64_t i = 0; i < block_.size; ++i) {
            double sum = 0.0, count = 0.0;
            for (int64_t k = 0; k < block_.n_classes; ++k)
                if (share(i, k) > 0.0) sum += array[k * padded_ + i], count += 1.0;
            for (int64_t k = 0; k < block_.n_classes; ++k) {
                double& element = array[k * padded_ + i];
                element = share(i, k) > 0.0 && count > 1.0 ? element - sum / count : 0.0;
            }
        }
    }

    double inner(const double* a, const double* b) const {
        double sums[8] = {};
        for (int64_t e = 0; e < length_; e += 8)
            for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += a[e + lane] * b[e + lane];
        return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }

    // Computes out = K vectors, class by class.
    void multiply(const double* vectors, double* out) const {
        for (int64_t e = 0; e < length_; ++e) out[e] = 0.0;
        for (int64_t i = 0; i < block_.size; ++i) {
            const Real* row = block_.matrix + i * block_.stride;
            for (int64_t k = 0; k < block_.n_classes; ++k) {
                const double weight = vectors[k * padded_ + i];
                if (weight == 0.0) continue;
                double* __restrict sums = out + k * padded_;
                for (int64_t j = 0; j < padded_; ++j) sums[j] += weight * static_cast<double>(row[j]);
            }
        }
    }

    void add(double step) {
        for (int64_t e = 0; e < length_; ++e) change_[e] += step * direction_[e], image_[e] += step * product_[e];
    }

    // Returns a step that is longer than the feasible set.
    double far() const {
        double most = 0.0, largest = 0.0;
        for (int64_t i = 0; i < block_.size; ++i) largest = block_.penalty[i] > largest ? block_.penalty[i] : largest;
        for (int64_t e = 0; e < length_; ++e)
            most = __builtin_fabs(direction_[e]) > most ? __builtin_fabs(direction_[e]) : most;
        return most > 0.0 ? 2.0 * largest / most : 0.0;
    }

    // Returns the longest step along which all shares stay nonnegative.
    double longest_step(const double* way) const {
        double least = __builtin_inf();
        for (int64_t i = 0; i < block_.size; ++i)
            for (int64_t k = 0; k < block_.n_classes; ++k) {
                const double w = way[k * padded_ + i];
                if (w > 0.0 && share(i, k) < least * w) least = share(i, k) / w;
            }
        return least;
    }

    // Returns the largest share of a class that is not an example's own; with huge C all of them are tiny.
    double largest_given() const {
        double most = 0.0;
        for (int64_t i = 0; i < block_.size; ++i)
            for (int64_t k = 0; k < block_.n_classes; ++k)
                if (k != block_.labels[i] && share(i, k) > most) most = share(i, k);
        return most;
    }

    // Moves to the projection of the minimiser onto the feasible set. If that does not improve the objective, moves
    // towards the minimiser while the point is feasible and the objective falls.
    void take() {
        const double room = longest_step(change_);
        for (int64_t k = 0; k < block_.n_classes; ++k)
            for (int64_t i = 0; i < block_.size; ++i)
                residual_[k * padded_ + i] = block_.gradient[i * block_.n_classes + k];
        const double slope = inner(residual_, change_), curvature = inner(change_, image_);
        double step = room < 1.0 ? room : 1.0;
        if (curvature > 0.0 && -slope < step * curvature) step = -slope / curvature;
        if (room < 1.0) {
            double* target = direction_;  // direction_ and product_ are no longer needed
            for (int64_t i = 0; i < block_.size; ++i) {
                for (int64_t k = 0; k < block_.n_classes; ++k)
                    shares_[k] = -block_.beta[i * block_.n_classes + k] - change_[k * padded_ + i];
                project_beside(shares_, block_.n_classes, block_.labels[i], block_.penalty[i]);
                write_shares(shares_, block_.n_classes, block_.labels[i], block_.penalty[i], moved_);
                for (int64_t k = 0; k < block_.n_classes; ++k)
                    target[k * padded_ + i] = moved_[k] - block_.beta[i * block_.n_classes + k];
            }
            multiply(target, product_);
            if (inner(residual_, target) + 0.5 * inner(target, product_) < step * (slope + 0.5 * step * curvature)) {
                change_ = target, image_ = product_;
                step = 1.0;
            }
        }
        if (step > 0.0) move(step);
    }

    // The gradient is updated with the change that beta has made. A long change along a direction of almost no
    // curvature would leave larger rounding errors.
    void move(double step) {
        const double given = largest_given();
        for (int64_t i = 0; i < block_.size; ++i) {
            double* beta = block_.beta + i * block_.n_classes;
            for (int64_t k = 0; k < block_.n_classes; ++k) {
                const double left = share(i, k) - step * change_[k * padded_ + i];
                // Values close to 0 become 0, because rounding would otherwise leave a tiny share.
                const double size = k == block_.labels[i] || block_.penalty[i] < given ? block_.penalty[i] : given;
                shares_[k] = left > 1e-14 * size ? left : 0.0;
            }
            write_shares(shares_, block_.n_classes, block_.labels[i], block_.penalty[i], moved_);
            for (int64_t k = 0; k < block_.n_classes; ++k) {
                change_[k * padded_ + i] = moved_[k] - beta[k];
                beta[k] = moved_[k];
            }
        }
        multiply(change_, image_);
        for (int64_t i = 0; i < block_.size; ++i)
            for (int64_t k = 0; k < block_.n_classes; ++k)
                block_.gradient[i * block_.n_classes + k] += image_[k * padded_ + i];
    }

    const JointProblem<Real>& block_;
    int64_t padded_, length_;
    double largest_ = 0.0;  // largest k(x, x)
    Scratch memory_;
    double *residual_, *direction_, *product_;  // product = K direction
    double *change_, *image_;                   // change of beta; image = K change
    double *shares_, *moved_;                   // values of one example
};

}  // namespace mercer::MERCER_ISA
