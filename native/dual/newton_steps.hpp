// Active-set Newton on a block. The free variables F go to the minimiser of their face,
//     K_FF d - sum_g nu_g 1_g = -g_F,   1_g' d = 0 for every group g,
// unless the box stops them. A variable that reaches its bound leaves F, and the step continues towards the minimiser
// of the smaller face. At the minimiser of a face the worst violators among the bounded variables enter F. The factor
// of K_FF includes a ridge of the size of rounding errors, so that a step is defined (as a proximal step) even if K_FF
// is singular. Repeated steps remove the effect of the ridge.
#pragma once

#include "dual/cholesky.hpp"
#include "dual/factored_inverse.hpp"
#include "dual/inverse.hpp"
#include "dual/kkt.hpp"
#include "parallel/parallel.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

// Ridge as a share of the diagonal, per free variable, because rounding errors of the matrix and its inverse add up
// over the free variables.
template <class Real>
constexpr double kRidge = sizeof(Real) == sizeof(double) ? 4e-15 : 2e-8;
constexpr double kUndetermined = 1e-14;
// If the slope at the end of a step exceeds this share of the initial slope, the ridge has made the step too short.
constexpr double kShort = 0.5;
constexpr double kEntering = 0.2;  // share of the worst violation from which other violators enter F too
// Free variables may deviate from their multiplier by this share of the violation.
constexpr double kAtRest = 0.1;
// If free variables deviate from their mean by more than this share of the violation, a fresh factor is tried.
constexpr double kRestless = 0.5;
constexpr double kNearer = 0.8;    // factor of the remaining step in the search for the next blocking variables
constexpr int kMaxRejections = 3;  // largest number of consecutive steps that rounding has made worse
constexpr int64_t kAddedAlone = 1'000'000;  // multiplications up to which one thread is faster than several
constexpr int64_t kReadAlone = 40'000;      // scattered reads up to which one thread is faster than several
constexpr int kMaxRefinements = 12;         // steps of iterative refinement on one face

template <class Real, class Factor>
class NewtonSteps {
  public:
    // Without incremental updates (kFollows) a change is expensive, and one variable enters at a time.
    static constexpr double kEnteringShare = Factor::kFollows ? kEntering : 1.0;
    // Without incremental updates only a deviation as large as the violation makes a fresh factor necessary.
    static constexpr double kRestlessShare = Factor::kFollows ? kRestless : 1.0;

    // capacity: largest number of free variables.
    NewtonSteps(const BlockProblem<Real>& block, int64_t capacity)
        : block_(block),
          capacity_(capacity),
          factor_(capacity, block.n_threads),
          memory_(sizeof(double) *
                  static_cast<std::size_t>(2 * factor_.stride() * (1 + block.n_groups) +
                                           (block.n_groups + 1) * (block.n_groups + 1) + 3 * block.size)),
          direction_(memory_.as<double>()),
          right_sides_(direction_ + factor_.stride() * (1 + block.n_groups)),
          system_(right_sides_ + factor_.stride() * (1 + block.n_groups)),
          member_(system_ + (block.n_groups + 1) * (block.n_groups + 1)),
          barred_(member_ + block.size),
          change_(barred_ + block.size),
          order_memory_(sizeof(int64_t) * static_cast<std::size_t>(capacity + Factor::kBatch + block.size)),
          free_(order_memory_.as<int64_t>()),
          moved_(free_ + capacity + Factor::kBatch) {
        for (int64_t u = 0; u < block.size; ++u) {
            member_[u] = barred_[u] = change_[u] = 0.0;
            shift_ += row(u)[u] / static_cast<double>(block.size);
        }
    }

    BlockResult run(double tol, int64_t max_iter) {
        BlockResult result{BlockEnd::limit, 0, block_violation(block_)};
        if (!begin()) {
            result.is_stopped = stopped_;
            return result;
        }
        double last_residual = kInfinity;
        int refinements = 0;
        while (result.n_iter < max_iter && rejected_ < kMaxRejections && !is_stopped()) {
            double residual = find_direction();
            result.violation = block_violation(block_);
            if (result.violation <= tol) break;
            const bool refine =
                residual > __builtin_fmax(0.1 * tol, kAtRest * result.violation * (Factor::kFollows ? 1.0 : 0.0)) &&
                refinements < kMaxRefinements && residual < 0.8 * last_residual;
            if (free_count() == 0 || !refine) {
                // If the free variables deviate too much from their multiplier, entering more variables would not help,
                // but a fresh factor may.
                const bool restless = residual >= kRestlessShare * result.violation;
                if (restless ? !changed_ || !begin() : !enter_worst(tol)) break;
                residual = find_direction();
                refinements = 0;
            }
            const bool is_full_step = follow_path(max_iter, result.n_iter);
            last_residual = is_full_step ? residual : kInfinity;
            refinements = is_full_step ? refinements + 1 : 0;
        }
        result.violation = block_violation(block_);
        result.is_stopped = stopped_;
        // More variables would enter than fit; the next call has a larger capacity.
        const bool full = free_count() + 2 > capacity_ && capacity_ < block_.size;
        result.end = result.violation <= tol                          ? BlockEnd::solved
                     : result.n_iter < max_iter && !full && !stopped_ ? BlockEnd::stalled
                                                                      : BlockEnd::limit;
        return result;
    }

  private:
    int64_t free_count() const { return factor_.size(); }

    const Real* row(int64_t u) const { return block_.matrix + u * block_.stride; }

    // Returns whether the caller wants to stop. It is called before each factor or inverse, which take long.
    bool is_stopped() {
        if constexpr (Factor::kFollows) stopped_ = stopped_ || (block_.stop && block_.stop(block_.stop_context));
        return stopped_;
    }

    // Fills F with the free variables and the variables that have just entered. Returns false if they exceed the
    // capacity, or if the caller asks to stop.
    bool begin() {
        factor_.clear();
        changed_ = false;
        int64_t count = 0;
        for (int64_t u = 0; u < block_.size; ++u) {
            if (member_[u] == 0.0 && !is_free(block_, u)) continue;
            if (factor_.size() + count == capacity_) return false;
            free_[factor_.size() + count++] = u;
            if (count < Factor::kBatch) continue;
            if (is_stopped()) return false;
            enter(count), count = 0;
        }
        enter(count);
        return true;
    }

    // Adds the last `count` variables of free_ to F.
    void enter(int64_t count) {
        const int64_t size = free_count();
        const double ridge = kRidge<Real> * static_cast<double>(size + count);
        auto fill = [this, size](int64_t b) {
            double* products = factor_.products(b);
            const Real* matrix_row = row(free_[size + b]);
            // A local name, so that the compiler knows that products do not overwrite them.
            const int64_t* others = free_;
            const double in_all = block_.n_groups == 1 ? shift_ : 0.0;
            for (int64_t k = 0; k < size; ++k) products[k] = static_cast<double>(matrix_row[others[k]]) + in_all;
            for (int64_t k = 0; k < size && block_.n_groups > 1; ++k) products[k] += shift(free_[size + b], others[k]);
        };
        share(count, Factor::kOnRequest && count * size > kReadAlone, fill);
        for (int64_t b = 0; b < count; ++b) {
            const int64_t u = free_[size + b];
            double* row_products = factor_.own_products(b);
            for (int64_t c = 0; c < count; ++c) row_products[c] = row(u)[free_[size + c]] + shift(u, free_[size + c]);
            row_products[b] += ridge * row_products[b] + 1e-300;
            member_[u] = 1.0;
        }
        factor_.append(count, ridge);
    }

    // Calls work(0 .. count - 1), on all threads if `much` is true.
    template <class Work>
    void share(int64_t count, bool much, const Work& work) const {
        auto task = [](void* context, int64_t k) { (*static_cast<const Work*>(context))(k); };
        parallel_for(count, much ? block_.n_threads : 1, task, const_cast<Work*>(&work));
    }

    // Closes the gaps of variables that have left F.
    void tidy() {
        factor_.tidy([this](int64_t from, int64_t to) {
            free_[to] = free_[from];
            for (int64_t g = 0; g <= block_.n_groups; ++g)
                for (double* values : {direction_, right_sides_})
                    values[g * factor_.stride() + to] = values[g * factor_.stride() + from];
        });
    }

    // The inverse is that of K_FF + sum_g shift_ 1_g 1_g', which gives the same d because 1_g' d = 0. Without the
    // shift, K_FF^-1 1_g is huge if K_FF is singular, and d would be lost in the difference of two such vectors.
    double shift(int64_t u, int64_t v) const {
        return block_.n_groups > 0 && group_of(u) == group_of(v) ? shift_ : 0.0;
    }
    double diagonal(int64_t u) const { return static_cast<double>(row(u)[u]) + shift(u, u); }

    int64_t group_of(int64_t u) const {
        int64_t g = 0;
        while (u >= block_.group_starts[g + 1]) ++g;
        return g;
    }

    double* group_column(int64_t g) const { return direction_ + (g + 1) * factor_.stride(); }
    // Returns 1_g: 1.0 for members of F in group g, 0.0 for other variables.
    double* inside(int64_t g) const { return right_sides_ + (g + 1) * factor_.stride(); }

    // Fills direction_ and returns the largest deviation of the free gradients from their group's multiplier.
    double find_direction() {
        if constexpr (Factor::kOnRequest) {
            if (!factor_.follows()) begin();
        } else if constexpr (Factor::kFollows) {
            tidy();
        }
        const int64_t size = free_count(), groups = block_.n_groups;
        for (int64_t k = 0; k < size; ++k) {
            const int64_t u = free_[k];
            right_sides_[k] = member_[u] != 0.0 ? -block_.gradient[u] : 0.0;
        }
        // Subtracting the mean of each group first does not change the solution, and reduces cancellation.
        for (int64_t g = 0; g < groups; ++g) {
            double* in_group = inside(g);
            const int64_t first = block_.group_starts[g], last = block_.group_starts[g + 1];
            for (int64_t k = 0; k < size; ++k)
                in_group[k] = first <= free_[k] && free_[k] < last ? member_[free_[k]] : 0.0;
            subtract_mean(in_group, right_sides_);
        }
        factor_.apply(right_sides_, direction_, groups + 1);
        subtract_multipliers();
        return largest_size(right_sides_, size);
    }

    void subtract_mean(const double* in_group, double* values) const {
        const int64_t size = free_count();
        const double count = dot(in_group, in_group, size);  // number of variables, as a sum of 0.0 and 1.0
        const double mean = count > 0.0 ? dot(in_group, values, size) / count : 0.0;
        for (int64_t k = 0; k < size; ++k) values[k] -= mean * in_group[k];
    }

    // direction += sum_g nu_g K_FF^-1 1_g with nu such that every group's sum is 0 (Gaussian elimination, few groups).
    void subtract_multipliers() {
        const int64_t size = free_count(), groups = block_.n_groups, width = groups + 1;
        for (int64_t g = 0; g < groups; ++g) {
            for (int64_t h = 0; h < groups; ++h) system_[g * width + h] = dot(inside(g), group_column(h), size);
            system_[g * width + groups] = -dot(inside(g), direction_, size);
        }
        for (int64_t g = 0; g < groups; ++g) {
            // A pivot of 0 means no free variable in this group. With a pivot close to 0 the multiplier is determined
            // by rounding only; any bounded value is accepted, because the sums are restored below.
            double& pivot = system_[g * width + g];
            const double column_sum = sum_of_sizes(group_column(g), size);
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
            const double* column = group_column(g);
            for (int64_t k = 0; k < size; ++k) direction_[k] += nu * column[k];
        }
        // With an ill-conditioned matrix the sums of groups are not exactly 0; they are subtracted, because errors
        // would add up over the steps.
        for (int64_t g = 0; g < groups; ++g) subtract_mean(inside(g), direction_);
    }

    // Moves along direction_ to the minimiser of the face, and turns at every bound that it meets. Returns whether it
    // met no bound. Each straight piece counts as a step.
    bool follow_path(int64_t max_iter, int64_t& n_iter) {
        bool is_full_step = true;
        for (; n_iter < max_iter; ++n_iter) {
            double length = 1.0;
            const int64_t blocking = move(length);
            if (blocking < 0) {
                ++n_iter;
                break;
            }
            is_full_step = false;
            if (length == 0.0) barred_[free_[blocking]] = 1.0;  // it would return to its bound at once
            turn(blocking, 1.0 - length);
            if (!factor_.follows() || is_stopped()) {
                ++n_iter;
                break;
            }
        }
        const bool moved = finish_step(is_full_step);
        // If variables that entered together made no progress, the worst violator is tried alone.
        if (moved || entering_ < 1.0)
            for (int64_t u = 0; u < block_.size; ++u) barred_[u] = 0.0;
        if (moved) rejected_ = 0;
        if (!moved && changed_ && entering_ < 1.0) begin();
        entering_ = moved ? kEnteringShare : 1.0;
        return is_full_step;
    }

    // Moves along direction_ to the first bound, by `length`; returns the position of the blocking variable, or -1.
    int64_t move(double& length) {
        const int64_t size = free_count();
        int64_t blocking = -1;
        double far = 0.0;
        for (int64_t k = 0; k < size; ++k) {
            const int64_t u = free_[k];
            const double d = direction_[k];
            const double room = d > 0.0 ? block_.upper[u] - block_.beta[u] : block_.lower[u] - block_.beta[u];
            if (d > 0.0 ? room < length * d : room > length * d) length = room / d, blocking = k;
            far += __builtin_fabs(d);
        }
        if (!(length > 0.0)) length = 0.0;
        if (!__builtin_isfinite(far)) {  // overflow: the point does not move, and the caller sees no progress
            length = 0.0;
            return -1;
        }
        for (int64_t k = 0; k < size; ++k) {
            const int64_t u = free_[k];
            const double old = block_.beta[u];
            double next = old + length * direction_[k];
            if (k == blocking) next = direction_[k] > 0.0 ? block_.upper[u] : block_.lower[u];
            next = __builtin_fmin(__builtin_fmax(next, block_.lower[u]), block_.upper[u]);
            block_.beta[u] = next;
            change_[u] += next - old;
        }
        return blocking;
    }

    // Removes a variable from F, and turns the rest of the step to the minimiser of the face of the others.
    void turn(int64_t leaving, double left) {
        const int64_t size = free_count(), u = free_[leaving];
        if constexpr (Factor::kOnRequest) ask_for_columns(leaving, left);
        member_[u] = 0.0;
        for (int64_t g = 0; g < block_.n_groups; ++g) inside(g)[leaving] = 0.0;
        changed_ = true;
        if constexpr (Factor::kFollows) {
            const double* column = factor_.remove(leaving, 1.0 / ((1.0 + kRidge<Real> * size) * diagonal(u)));
            for (int64_t k = 0; k < size; ++k) direction_[k] *= left;
            for (int64_t g = 0; g <= block_.n_groups; ++g) {
                double* values = direction_ + g * factor_.stride();
                const double share = values[leaving] / column[leaving];
                for (int64_t k = 0; k < size; ++k) values[k] -= share * column[k];
                values[leaving] = 0.0;
            }
            if constexpr (!Factor::kOnRequest)
                if (factor_.must_tidy()) tidy();
            subtract_multipliers();
        } else {
            factor_.remove(leaving, [this](int64_t from, int64_t to) { free_[to] = free_[from]; });
        }
    }

    // Computes columns of the inverse for the leaving variable, and for the variables that reach their bounds next.
    void ask_for_columns(int64_t leaving, double left) {
        if (factor_.knows(leaving)) return;
        factor_.start_asking();
        factor_.ask(leaving);
        auto for_each_hit = [&](double length, auto see) {
            for (int64_t k = 0; k < free_count(); ++k) {
                const int64_t u = free_[k];
                const double next = block_.beta[u] + length * direction_[k];
                if (member_[u] != 0.0 && (next < block_.lower[u] || next > block_.upper[u])) see(k);
            }
        };
        // The horizon shrinks until fewer than kBatch variables reach a bound within it; their columns are requested
        // too. If that never happens, only the column of the leaving variable is requested.
        for (int64_t count = Factor::kBatch; count >= Factor::kBatch && left > kUndetermined; left *= kNearer) {
            count = 0;
            for_each_hit(left, [&](int64_t) { ++count; });
            if (count < Factor::kBatch) for_each_hit(left, [&](int64_t k) { factor_.ask(k); });
        }
        factor_.answer();
    }

    // Updates the gradient; returns whether the point has moved. If rounding in the factor has made the objective
    // worse, the point goes back along the same line to the best point. If the ridge has made a whole step too short,
    // the point continues along the line to the best point, or to the edge of the box.
    bool finish_step(bool is_full_step) {
        double size = 0.0;  // scale of the rounding errors of slopes
        const double before = slope(size);
        update_gradient(1.0);
        const double after = slope(size);
        const bool uphill = before + after > kUndetermined * size;
        bool moved = false;
        for (int64_t u = 0; u < block_.size; ++u) moved = moved || change_[u] != 0.0;
        double more = 0.0;
        if (uphill) {
            ++rejected_, more = before < 0.0 ? after / (before - after) : -1.0;
            if (more != 0.0) update_gradient(more);
        } else if (is_full_step && before < -kUndetermined * size && after < kShort * before) {
            more = go_straight_ahead(after - before);
        }
        for (int64_t u = 0; u < block_.size; ++u) {
            if (change_[u] == 0.0) continue;
            const double next = block_.beta[u] + more * change_[u];
            block_.beta[u] = __builtin_fmin(__builtin_fmax(next, block_.lower[u]), block_.upper[u]);
            change_[u] = 0.0;
        }
        return moved && !uphill;
    }

    // Repeats the last change while the objective decreases, updates the gradient, and returns the number of
    // repetitions (not necessarily an integer). Before that, the sums over groups that rounding has left in the change
    // are subtracted, because repetition would multiply them.
    double go_straight_ahead(double curvature) {
        for (int64_t g = 0; g < block_.n_groups; ++g) {
            const int64_t first = block_.group_starts[g], last = block_.group_starts[g + 1];
            double sum = 0.0, count = 0.0;
            for (int64_t u = first; u < last; ++u)
                if (change_[u] != 0.0) sum += change_[u], count += 1.0;
            for (int64_t u = first; u < last; ++u)
                if (change_[u] != 0.0) change_[u] -= sum / count;
        }
        double size = 0.0, size_there = 0.0;
        const double ahead = slope(size);
        if (!(ahead < -kUndetermined * size)) return 0.0;
        const double most = longest_step(curvature > 0.0 ? -ahead / curvature : kInfinity);
        if (most == 0.0) return most;
        update_gradient(most);
        const double beyond = slope(size_there);
        if (!(beyond > kUndetermined * size_there)) return most;
        const double best = most * ahead / (ahead - beyond);
        update_gradient(best - most);
        return best;
    }

    // Returns how often the last change can be repeated within the box, at most `most`; 0 if there is no limit.
    double longest_step(double most) const {
        for (int64_t u = 0; u < block_.size; ++u) {
            const double d = change_[u];
            const double room = d > 0.0 ? block_.upper[u] - block_.beta[u] : block_.lower[u] - block_.beta[u];
            if (d != 0.0 && room / d < most) most = room / d;
        }
        return __builtin_isfinite(most) ? most : 0.0;
    }

    double slope(double& size) const {
        double total = 0.0;
        for (int64_t u = 0; u < block_.size; ++u) {
            total += change_[u] * block_.gradient[u];
            if (change_[u] != 0.0)
                size +=
                    (__builtin_fabs(change_[u]) + __builtin_fabs(block_.beta[u])) * __builtin_fabs(block_.gradient[u]);
        }
        return total;
    }

    // gradient += factor K change.
    void update_gradient(double factor) {
        int64_t n_moved = 0;
        for (int64_t u = 0; u < block_.size; ++u)
            if (change_[u] != 0.0) moved_[n_moved++] = u;
        const bool much = n_moved * block_.size > kAddedAlone;
        const int64_t n_parts = much ? block_.n_threads : 1, width = padded((block_.size + n_parts - 1) / n_parts);
        share(n_parts, much, [=, this](int64_t part) {
            // Rows added at a time; gradients are read and written once for all of them.
            constexpr int kTogetherAdded = 8;
            const int64_t first = part * width, end = first + width, last = end < block_.size ? end : block_.size;
            int64_t m = 0;
            for (; m + kTogetherAdded <= n_moved; m += kTogetherAdded)
                add_rows<kTogetherAdded>(moved_ + m, factor, first, last);
            for (; m < n_moved; ++m) add_rows<1>(moved_ + m, factor, first, last);
        });
    }

    template <int count>
    void add_rows(const int64_t* moved, double factor, int64_t first, int64_t last) const {
        double* __restrict gradient = block_.gradient;
        double changes[count];
        const Real* rows[count];
        for (int k = 0; k < count; ++k) changes[k] = factor * change_[moved[k]], rows[k] = row(moved[k]);
        for (int64_t v = first; v < last; ++v) {
            double value = gradient[v];
#pragma GCC unroll 8
            for (int k = 0; k < count; ++k) value += changes[k] * static_cast<double>(rows[k][v]);
            gradient[v] = value;
        }
    }

    // Adds the bounded variables that violate most to F; in a group without free variables, the worst pair.
    bool enter_worst(double tol) {
        double worst = 0.0;
        each_violation([&](int64_t, int64_t, double violation) { worst = __builtin_fmax(worst, violation); });
        // Two variables that deviate from the level on opposite sides violate by the sum of both deviations.
        const double enough = block_.n_groups > 0 && worst <= tol ? 0.5 * tol : tol;
        const double least = __builtin_fmax(enough, entering_ * worst);
        if constexpr (Factor::kOnRequest)
            if (factor_.is_worn()) begin();
        const int64_t size = free_count();
        int64_t count = 0, revived = 0;
        auto take = [&](int64_t u) {
            if (Factor::kOnRequest && revive(u))
                ++revived;
            else
                free_[size + count++] = u;
        };
        each_violation([&](int64_t u, int64_t partner, double violation) {
            const int64_t more = count + (partner < 0 ? 1 : 2);
            if (violation < least || !(violation > enough) || size + more > capacity_ || more > Factor::kBatch) return;
            take(u);
            if (partner >= 0) take(partner);
        });
        enter(count);
        changed_ = changed_ || count + revived > 0;
        return count + revived > 0;
    }

    // Returns a removed variable to F if the factor still has it; returns whether it did.
    bool revive(int64_t u) {
        if constexpr (Factor::kOnRequest)
            for (int64_t k = 0; k < free_count(); ++k)
                if (free_[k] == u) {
                    factor_.revive(k);
                    member_[u] = 1.0;
                    return true;
                }
        return false;
    }

    // Calls see(u, partner, violation) for every bounded variable that violates optimality and is not barred.
    template <class See>
    void each_violation(See see) const {
        auto consider = [&](int64_t u, double violation) {
            if (member_[u] == 0.0 && barred_[u] == 0.0 && violation > 0.0) see(u, int64_t{-1}, violation);
        };
        for (int64_t u = 0; block_.n_groups == 0 && u < block_.size; ++u) consider(u, lone_violation(block_, u));
        for (int64_t g = 0; g < block_.n_groups; ++g) {
            const int64_t first = block_.group_starts[g], last = block_.group_starts[g + 1];
            double level = 0.0, count = 0.0;
            for (int64_t u = first; u < last; ++u)
                if (member_[u] != 0.0) level += block_.gradient[u], count += 1.0;
            if (count == 0.0) {
                const Extremes e = find_extremes(block_, first, last);
                if (e.violation() > 0.0 && barred_[e.up] == 0.0) see(e.up, e.low, e.violation());
                continue;
            }
            level /= count;
            for (int64_t u = first; u < last; ++u) {
                if (can_grow(block_, u)) consider(u, level - block_.gradient[u]);
                if (can_shrink(block_, u)) consider(u, block_.gradient[u] - level);
            }
        }
    }

    const BlockProblem<Real>& block_;
    int64_t capacity_;
    Factor factor_;
    Scratch memory_;
    // direction_: the direction, then the inverse times 1_g of every group g. right_sides_: the right sides of both.
    double *direction_, *right_sides_;
    double* system_;
    double *member_, *barred_;  // 1.0 if a variable is in F; 1.0 if it was blocked at once
    double* change_;            // change of beta that is not yet in the gradient
    double entering_ = kEnteringShare;
    double shift_ = 0.0;  // mean of the diagonal; see `shift`
    int rejected_ = 0;
    bool changed_ = false;  // whether the inverse has been updated since it was computed
    bool stopped_ = false;  // whether the caller has asked to stop
    Scratch order_memory_;
    int64_t *free_, *moved_;
};

}  // namespace mercer::MERCER_ISA
