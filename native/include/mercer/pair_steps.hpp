// Sequential minimal optimisation on a block: two variables of one group move against each other, so that
// the group's sum stays; the first is the worst violator, the second promises the largest decrease
// [Fan, Chen & Lin 2005, WSS 2]. Without equality constraints single variables move.
#pragma once

#include "mercer/kkt.hpp"
#include "mercer/scratch.hpp"

namespace mercer::MERCER_ISA {

// Curvature below this share of k(x,x) + k(z,z) is rounding; the step then goes as far as the box lets it.
constexpr double kFlat = 1e-15;
constexpr double kTiny = 1e-300;  // a diagonal may be 0 or, where the kernel is indefinite, negative

template <class Real>
class PairSteps {
  public:
    explicit PairSteps(const BlockProblem<Real>& block)
        : block_(block),
          padded_((block.size + kBlockPadding - 1) / kBlockPadding * kBlockPadding),
          memory_(sizeof(double) * static_cast<std::size_t>(4 * padded_ + 1)),
          gradient_(memory_.as<double>()),
          grow_(gradient_ + padded_),
          shrink_(grow_ + padded_),
          diagonal_(shrink_ + padded_) {
        for (int64_t u = 0; u < padded_; ++u) {
            const bool real = u < block.size;
            gradient_[u] = real ? block.gradient[u] : 0.0;
            diagonal_[u] = real ? block.matrix[u * block.stride + u] : 1.0;
            grow_[u] = kInfinity, shrink_[u] = -kInfinity;
            if (real) mark(u);
        }
        extremes_ = scan(0, block.size);
    }

    BlockResult run(double tol, int64_t max_iter) {
        BlockResult result{BlockEnd::limit, 0, 0.0};
        while (result.n_iter < max_iter) {
            const bool moved =
                block_.n_groups == 0 ? lone_step(tol, result.violation) : pair_step(tol, result.violation);
            if (result.violation <= tol) {
                result.end = BlockEnd::solved;
                break;
            }
            if (!moved) {
                result.end = BlockEnd::stalled;
                break;
            }
            ++result.n_iter;
        }
        for (int64_t u = 0; u < block_.size; ++u) block_.gradient[u] = gradient_[u];
        if (result.end == BlockEnd::limit) {
            result.violation = block_violation(block_);
            if (result.violation <= tol) result.end = BlockEnd::solved;
        }
        return result;
    }

  private:
    void mark(int64_t u) {
        grow_[u] = can_grow(block_, u) ? 0.0 : kInfinity;
        shrink_[u] = can_shrink(block_, u) ? 0.0 : -kInfinity;
    }

    const Real* row(int64_t u) const { return block_.matrix + u * block_.stride; }

    // The smallest of g + grow and the largest of g + shrink, lane by lane, with where they are.
    struct LaneExtremes {
        Vec least = broadcast(kInfinity), most = broadcast(-kInfinity);
        Vec least_at = broadcast(-1.0), most_at = broadcast(-1.0);

        MERCER_INLINE void see(Vec up, Vec low, Vec position) {
            least_at = up < least ? position : least_at;
            least = min(up, least);
            most_at = low > most ? position : most_at;
            most = max(low, most);
        }

        void reduce(Extremes& e) const {
            for (int lane = 0; lane < kLanes; ++lane) {
                if (better(least[lane] < e.up_gradient, least[lane] == e.up_gradient, least_at[lane], e.up))
                    e.up_gradient = least[lane], e.up = static_cast<int64_t>(least_at[lane]);
                if (better(most[lane] > e.low_gradient, most[lane] == e.low_gradient, most_at[lane], e.low))
                    e.low_gradient = most[lane], e.low = static_cast<int64_t>(most_at[lane]);
            }
        }

        // Ties go to the smaller index, whatever the width of the vectors.
        static bool better(bool strictly, bool equal, double at, int64_t held) {
            return strictly || (equal && at >= 0.0 && at < static_cast<double>(held));
        }
    };

    // Extremes of a group, by whole vectors; what a vector holds beyond the group's edges is masked.
    Extremes scan(int64_t first, int64_t last) const {
        LaneExtremes lanes;
        for (int64_t u = first / kLanes * kLanes; u < last; u += kLanes) {
            const Vec g = load(gradient_ + u), position = positions(u);
            const auto inside = (position >= static_cast<double>(first)) & (position < static_cast<double>(last));
            lanes.see(inside ? g + load(grow_ + u) : broadcast(kInfinity),
                      inside ? g + load(shrink_ + u) : broadcast(-kInfinity), position);
        }
        Extremes e;
        lanes.reduce(e);
        return e;
    }

    // g += step (K_i - K_j), and the extremes of what comes out: one pass over memory, in two independent chains.
    Extremes update_and_scan(double step, const Real* row_i, const Real* row_j) {
        LaneExtremes lanes[2];
        int64_t u = 0;
        auto advance = [&](LaneExtremes& chain) MERCER_LAMBDA_INLINE {
            const Vec g = load(gradient_ + u) + step * (load(row_i + u) - load(row_j + u));
            store(gradient_ + u, g);
            chain.see(g + load(grow_ + u), g + load(shrink_ + u), positions(u));
            u += kLanes;
        };
        while (u + 2 * kLanes <= padded_) advance(lanes[0]), advance(lanes[1]);
        while (u < padded_) advance(lanes[0]);
        Extremes e;
        lanes[0].reduce(e);
        lanes[1].reduce(e);
        return e;
    }

    MERCER_INLINE static Vec positions(int64_t u) {
        Vec numbers{};
        for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = lane;
        return numbers + static_cast<double>(u);
    }

    // Among the variables of the group that can shrink, the one with the largest decrease (g_j - g_i)^2 / curvature.
    int64_t select_partner(int64_t first, int64_t last, const Extremes& e) const {
        const Real* matrix_row = row(e.up);
        const double own = diagonal_[e.up];
        Vec best[2] = {broadcast(-1.0), broadcast(-1.0)}, best_at[2] = {broadcast(-1.0), broadcast(-1.0)};
        int64_t u = first / kLanes * kLanes;
        auto advance = [&](int chain) MERCER_LAMBDA_INLINE {
            const Vec position = positions(u);
            const Vec difference = load(gradient_ + u) + load(shrink_ + u) - e.up_gradient;
            const Vec scale = own + load(diagonal_ + u);
            const Vec curvature = max(scale - 2.0 * load(matrix_row + u), kFlat * max(scale, -scale) + kTiny);
            const auto allowed =
                (difference > 0.0) & (position >= static_cast<double>(first)) & (position < static_cast<double>(last));
            const Vec gain = allowed ? difference * difference / curvature : broadcast(-1.0);
            best_at[chain] = gain > best[chain] ? position : best_at[chain];
            best[chain] = max(gain, best[chain]);
            u += kLanes;
        };
        while (u + 2 * kLanes <= last) advance(0), advance(1);
        while (u < last) advance(0);
        double top = -1.0, at = -1.0;
        for (int chain = 0; chain < 2; ++chain)
            for (int lane = 0; lane < kLanes; ++lane) {
                const double gain = best[chain][lane], where = best_at[chain][lane];
                if (where >= 0.0 && (gain > top || (gain == top && where < at))) top = gain, at = where;
            }
        return static_cast<int64_t>(at);
    }

    bool pair_step(double tol, double& violation) {
        Extremes worst = extremes_;
        int64_t group = 0;
        for (int64_t g = 0; block_.n_groups > 1 && g < block_.n_groups; ++g) {
            const Extremes e = scan(block_.group_starts[g], block_.group_starts[g + 1]);
            if (g == 0 || e.violation() > worst.violation()) worst = e, group = g;
        }
        violation = worst.violation();
        if (violation <= tol) return false;
        const int64_t i = worst.up;
        int64_t j = select_partner(block_.group_starts[group], block_.group_starts[group + 1], worst);
        if (j < 0) j = worst.low;  // every gain overflowed or was not a number
        double* beta = block_.beta;
        const double scale = diagonal_[i] + diagonal_[j];
        const double curvature = __builtin_fmax(scale - 2.0 * row(i)[j], kFlat * __builtin_fabs(scale) + kTiny);
        const double room_i = block_.upper[i] - beta[i], room_j = beta[j] - block_.lower[j];
        double step = (gradient_[j] - gradient_[i]) / curvature;
        if (!(step < room_i)) step = room_i;
        if (!(step < room_j)) step = room_j;
        if (!__builtin_isfinite(step)) return false;  // unbounded: there is no minimum along this line
        const double old_i = beta[i], old_j = beta[j];
        beta[i] = step == room_i ? block_.upper[i] : old_i + step;
        beta[j] = step == room_j ? block_.lower[j] : old_j - step;
        if (beta[i] == old_i && beta[j] == old_j) return false;
        mark(i), mark(j);
        extremes_ = update_and_scan(step, row(i), row(j));
        return true;
    }

    bool lone_step(double tol, double& violation) {
        int64_t chosen = -1;
        double best = 0.0;
        violation = 0.0;
        for (int64_t u = 0; u < block_.size; ++u) {
            const double g = gradient_[u];
            const double wrong = g < 0.0 ? (grow_[u] == 0.0 ? -g : 0.0) : (shrink_[u] == 0.0 ? g : 0.0);
            violation = __builtin_fmax(violation, wrong);
            const double gain = wrong * wrong / __builtin_fmax(diagonal_[u], 1e-300);
            if (gain > best) best = gain, chosen = u;
        }
        if (violation <= tol || chosen < 0) return false;
        const double old = block_.beta[chosen];
        double next = old - gradient_[chosen] / __builtin_fmax(diagonal_[chosen], 1e-300);
        next = __builtin_fmin(__builtin_fmax(next, block_.lower[chosen]), block_.upper[chosen]);
        if (next == old) return false;
        block_.beta[chosen] = next;
        mark(chosen);
        const Real* matrix_row = row(chosen);
        const double step = next - old;
        for (int64_t u = 0; u < padded_; u += kLanes)
            store(gradient_ + u, load(gradient_ + u) + step * load(matrix_row + u));
        return true;
    }

    const BlockProblem<Real>& block_;
    int64_t padded_;
    Scratch memory_;
    Extremes extremes_;  // of all variables, kept up to date: what the next step needs where there is one group
    double *gradient_, *grow_, *shrink_, *diagonal_;  // grow: 0 or +inf; shrink: 0 or -inf; both are added to g
};

}  // namespace mercer::MERCER_ISA
