// Active-set Newton on a block. The free variables F go to the minimiser of their face in one step,
//     K_FF d - sum_g nu_g 1_g = -g_F,   1_g' d = 0 for every group g,
// as far as the box lets them: a variable that hits its bound leaves F, and at the minimiser of a face the
// worst violator among the bounded variables enters. The factor of K_FF carries a ridge at the level of
// rounding, so a singular K_FF makes a step proximal instead of undefined; repeated steps remove its effect.
#pragma once

#include "mercer/cholesky.hpp"
#include "mercer/kkt.hpp"
#include "mercer/scratch.hpp"

namespace mercer::MERCER_ISA {

// Of the diagonal, per free variable in the factor's pivots: rounding in the entries of the matrix adds up over them.
template <class Real>
constexpr double kRidge = sizeof(Real) == sizeof(double) ? 4e-15 : 1e-7;
constexpr double kUndetermined = 1e-14;
constexpr int kMaxRefinements = 6;  // repeated steps on one face, each removing more of the ridge's effect

template <class Real>
class NewtonSteps {
  public:
    // capacity: the most variables that may be free at a time.
    NewtonSteps(const BlockProblem<Real>& block, int64_t capacity)
        : block_(block),
          capacity_(capacity),
          factor_(capacity),
          memory_(sizeof(double) *
                  static_cast<std::size_t>((capacity + 1) * (3 + block.n_groups) +
                                           (block.n_groups + 1) * (block.n_groups + 1) + 2 * block.size + 2)),
          direction_(memory_.as<double>()),
          column_(direction_ + capacity + 1),
          group_columns_(column_ + capacity + 1),
          system_(group_columns_ + (capacity + 1) * (block.n_groups + 1)),
          member_(system_ + (block.n_groups + 1) * (block.n_groups + 1)),
          barred_(member_ + block.size),
          order_memory_(sizeof(int64_t) * static_cast<std::size_t>(capacity + 1 + block.n_groups + 1)),
          free_(order_memory_.as<int64_t>()) {
        for (int64_t u = 0; u < block.size; ++u) {
            member_[u] = barred_[u] = 0.0;
            shift_ += row(u)[u] / static_cast<double>(block.size);
        }
    }

    BlockResult run(double tol, int64_t max_iter) {
        BlockResult result{BlockEnd::limit, 0, block_violation(block_)};
        for (int64_t u = 0; u < block_.size; ++u)
            if (is_free(block_, u) && !enter(u)) return result;
        double last_residual = kInfinity;
        int refinements = 0;
        for (; result.n_iter < max_iter; ++result.n_iter) {
            double residual = find_direction();
            const bool refine = residual > 0.1 * tol && refinements < kMaxRefinements && residual < 0.5 * last_residual;
            if (free_count() == 0 || !refine) {
                result.violation = block_violation(block_);
                if (result.violation <= tol || residual_too_large(residual, result.violation)) break;
                if (!enter_worst(tol)) break;
                residual = find_direction();
                refinements = 0;
            }
            const bool whole = step();
            last_residual = whole ? residual : kInfinity;
            refinements = whole ? refinements + 1 : 0;
        }
        result.violation = block_violation(block_);
        const bool full = free_count() == capacity_ && capacity_ < block_.size;  // the next call has more room
        result.end = result.violation <= tol             ? BlockEnd::solved
                     : result.n_iter < max_iter && !full ? BlockEnd::stalled
                                                         : BlockEnd::limit;
        return result;
    }

  private:
    int64_t free_count() const { return factor_.size(); }

    // The free variables cannot be brought to rest: entering more would not help.
    static bool residual_too_large(double residual, double violation) { return residual >= violation; }

    const Real* row(int64_t u) const { return block_.matrix + u * block_.stride; }

    bool enter(int64_t u) {
        const int64_t size = free_count();
        if (size >= capacity_) return false;
        for (int64_t k = 0; k < size; ++k) column_[k] = row(u)[free_[k]] + shift(u, free_[k]);
        const double diagonal = row(u)[u] + shift(u, u),
                     ridge = kRidge<Real> * static_cast<double>(size + 1) * diagonal + 1e-300;
        factor_.append(column_, diagonal + ridge, ridge);
        free_[size] = u;
        member_[u] = 1.0;
        return true;
    }

    void leave(int64_t position) {
        member_[free_[position]] = 0.0;
        factor_.remove(position);
        for (int64_t k = position; k < free_count(); ++k) free_[k] = free_[k + 1];
    }

    // The factor is that of K_FF + sum_g shift_ 1_g 1_g', which has the same d since 1_g' d = 0: without the shift,
    // K_FF^-1 1_g is as large as the ridge lets it be where K_FF is singular, and d is lost in the difference of such.
    double shift(int64_t u, int64_t v) const {
        return block_.n_groups > 0 && group_of(u) == group_of(v) ? shift_ : 0.0;
    }

    int64_t group_of(int64_t u) const {
        int64_t g = 0;
        while (u >= block_.group_starts[g + 1]) ++g;
        return g;
    }

    // Fills direction_ and returns the largest deviation of the free gradients from their group's multiplier.
    double find_direction() {
        const int64_t size = free_count(), groups = block_.n_groups, width = groups + 1;
        for (int64_t k = 0; k < size; ++k) direction_[k] = -block_.gradient[free_[k]];
        double residual = 0.0;
        if (groups == 0) {
            for (int64_t k = 0; k < size; ++k) residual = __builtin_fmax(residual, __builtin_fabs(direction_[k]));
            factor_.solve(direction_);
            return residual;
        }
        double* centre = system_ + groups * width;  // mean free gradient of each group
        for (int64_t g = 0; g < groups; ++g) {
            double* column = group_columns_ + g * (capacity_ + 1);
            double total = 0.0, count = 0.0;
            for (int64_t k = 0; k < size; ++k) {
                column[k] = group_of(free_[k]) == g ? 1.0 : 0.0;
                total += column[k] * direction_[k];
                count += column[k];
            }
            centre[g] = count > 0.0 ? total / count : 0.0;
        }
        // Taking the mean out first leaves the solution as it is and much less to cancel.
        for (int64_t k = 0; k < size; ++k) {
            direction_[k] -= centre[group_of(free_[k])];
            residual = __builtin_fmax(residual, __builtin_fabs(direction_[k]));
        }
        factor_.solve(direction_);
        for (int64_t g = 0; g < groups; ++g) factor_.solve(group_columns_ + g * (capacity_ + 1));
        subtract_multipliers();
        return residual;
    }

    static double total_of(const double* values, int64_t count) {
        double total = 0.0;
        for (int64_t k = 0; k < count; ++k) total += __builtin_fabs(values[k]);
        return total;
    }

    // direction += sum_g nu_g K_FF^-1 1_g with nu such that every group's sum is 0 (Gaussian elimination, few groups).
    void subtract_multipliers() {
        const int64_t size = free_count(), groups = block_.n_groups, width = groups + 1;
        for (int64_t g = 0; g < groups; ++g)
            for (int64_t h = 0; h <= groups; ++h) system_[g * width + h] = 0.0;
        for (int64_t k = 0; k < size; ++k) {
            double* equation = system_ + group_of(free_[k]) * width;
            for (int64_t h = 0; h < groups; ++h) equation[h] += group_columns_[h * (capacity_ + 1) + k];
            equation[groups] -= direction_[k];
        }
        for (int64_t g = 0; g < groups; ++g) {
            // 0: no free variable in this group. Next to 0: its multiplier is not determined beyond rounding, and a
            // bounded one will do, since the sums are restored below.
            double& pivot = system_[g * width + g];
            const double column_sum = total_of(group_columns_ + g * (capacity_ + 1), size);
            if (!(pivot > kUndetermined * column_sum)) pivot = column_sum > 0.0 ? column_sum : 1.0;
            for (int64_t r = g + 1; r < groups; ++r) {
                const double factor = system_[r * width + g] / system_[g * width + g];
                for (int64_t h = g; h <= groups; ++h) system_[r * width + h] -= factor * system_[g * width + h];
            }
        }
        for (int64_t g = groups - 1; g >= 0; --g) {
            double value = system_[g * width + groups];
            for (int64_t h = g + 1; h < groups; ++h) value -= system_[g * width + h] * system_[h * width + groups];
            const double nu = system_[g * width + groups] = value / system_[g * width + g];
            for (int64_t k = 0; k < size; ++k) direction_[k] += nu * group_columns_[g * (capacity_ + 1) + k];
        }
        // What an ill-conditioned factor has left of the groups' sums is taken out, or it would add up over the steps.
        for (int64_t g = 0; g < groups; ++g) {
            double total = 0.0, count = 0.0;
            for (int64_t k = 0; k < size; ++k)
                if (group_of(free_[k]) == g) total += direction_[k], count += 1.0;
            for (int64_t k = 0; k < size; ++k)
                if (group_of(free_[k]) == g) direction_[k] -= total / count;
        }
    }

    // Moves along direction_ as far as the box lets it; returns whether that was the whole step.
    bool step() {
        double length = 1.0;
        int64_t blocking = -1;
        for (int64_t k = 0; k < free_count(); ++k) {
            const int64_t u = free_[k];
            const double d = direction_[k];
            const double room = d > 0.0 ? block_.upper[u] - block_.beta[u] : block_.lower[u] - block_.beta[u];
            if (d != 0.0 && room / d < length) length = room / d, blocking = k;
        }
        if (!(length > 0.0)) length = 0.0;
        for (int64_t k = 0; k < free_count(); ++k)
            if (!__builtin_isfinite(direction_[k])) return true;  // overflow: stay; the caller sees no progress
        for (int64_t k = 0; k < free_count(); ++k) {
            const int64_t u = free_[k];
            const double old = block_.beta[u];
            double next = old + length * direction_[k];
            if (k == blocking) next = direction_[k] > 0.0 ? block_.upper[u] : block_.lower[u];
            next = __builtin_fmin(__builtin_fmax(next, block_.lower[u]), block_.upper[u]);
            block_.beta[u] = next;
            if (next == old) continue;
            const double change = next - old;
            const Real* matrix_row = row(u);
            for (int64_t v = 0; v < block_.size; ++v) block_.gradient[v] += change * static_cast<double>(matrix_row[v]);
        }
        if (length > 0.0)
            for (int64_t u = 0; u < block_.size; ++u) barred_[u] = 0.0;
        if (blocking < 0) return true;
        if (length == 0.0) barred_[free_[blocking]] = 1.0;  // it would only come straight back
        leave(blocking);
        return false;
    }

    // The bounded variable that violates most enters; in a group without free variables, the worst pair does.
    bool enter_worst(double tol) {
        int64_t chosen = -1, partner = -1;
        double worst = tol;
        auto consider = [&](int64_t u, int64_t with, double violation) {
            if (member_[u] == 0.0 && barred_[u] == 0.0 && violation > worst)
                worst = violation, chosen = u, partner = with;
        };
        for (int64_t u = 0; block_.n_groups == 0 && u < block_.size; ++u) consider(u, -1, lone_violation(block_, u));
        for (int64_t g = 0; g < block_.n_groups; ++g) {
            const int64_t first = block_.group_starts[g], last = block_.group_starts[g + 1];
            double level = 0.0, count = 0.0;
            for (int64_t u = first; u < last; ++u)
                if (member_[u] != 0.0) level += block_.gradient[u], count += 1.0;
            if (count == 0.0) {
                const Extremes e = find_extremes(block_, first, last);
                if (e.violation() > 0.0) consider(e.up, e.low, e.violation());
                continue;
            }
            level /= count;
            for (int64_t u = first; u < last; ++u) {
                if (can_grow(block_, u)) consider(u, -1, level - block_.gradient[u]);
                if (can_shrink(block_, u)) consider(u, -1, block_.gradient[u] - level);
            }
        }
        return chosen >= 0 && enter(chosen) && (partner < 0 || member_[partner] != 0.0 || enter(partner));
    }

    const BlockProblem<Real>& block_;
    int64_t capacity_;
    Cholesky factor_;
    Scratch memory_;
    double *direction_, *column_, *group_columns_, *system_;
    double shift_ = 0.0;        // mean of the diagonal
    double *member_, *barred_;  // 1.0 where a variable is in F, or was found to be blocked at once
    Scratch order_memory_;
    int64_t* free_;
};

}  // namespace mercer::MERCER_ISA
