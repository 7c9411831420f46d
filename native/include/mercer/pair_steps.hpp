// Sequential minimal optimisation on a block: two variables of one group move against each other, so that
// the group's sum stays; the first is the worst violator, the second promises the largest decrease
// [Fan, Chen & Lin 2005, WSS 2]. Without equality constraints single variables move.
#pragma once

#include "mercer/flags.hpp"
#include "mercer/kkt.hpp"
#include "mercer/scratch.hpp"

namespace mercer::MERCER_ISA {

// Curvature below this share of k(x,x) + k(z,z) is rounding; the step then goes as far as the box lets it.
template <class Real>
constexpr Real kFlat = static_cast<Real>(sizeof(Real) == sizeof(double) ? 1e-15 : 1e-7);
template <class Real>  // a diagonal may be 0 or, where the kernel is indefinite, negative
constexpr Real kTiny = static_cast<Real>(sizeof(Real) == sizeof(double) ? 1e-300 : 1e-30);

// Gradients are followed in the precision of the matrix, each relative to the level of its group: where a machine is
// nearly solved those of free variables are next to 0, and rounding is relative to what is left of them. What it makes
// of them in single precision shows when the caller looks at the true gradient. Points are always double.
template <class Real>
class PairSteps {
    using V = VecOf<Real>;
    static constexpr int kWidth = kLanesOf<Real>;
    static constexpr int64_t kAheadBytes = 4096;  // a row comes from far away
    static constexpr int64_t kAhead = kAheadBytes / static_cast<int64_t>(sizeof(Real));
    static constexpr Real kInf = static_cast<Real>(kInfinity), kNoNumber = static_cast<Real>(__builtin_nan(""));
    using Mask = typename Flags<Real>::Mask;

    // The extremes of a group (kkt.hpp), without who has the largest: that is asked only where no partner is found, and
    // to follow it would take one more choice a vector.
    struct GroupExtremes {
        int64_t up = -1;
        double up_gradient = kInfinity, low_gradient = -kInfinity;
        double violation() const { return up < 0 ? 0.0 : __builtin_fmax(0.0, low_gradient - up_gradient); }
    };

  public:
    explicit PairSteps(const BlockProblem<Real>& block)
        : block_(block),
          padded_(padded(block.size)),
          memory_(sizeof(Real) * static_cast<std::size_t>(2 * padded_ + 1)),
          flag_memory_(2 * Flags<Real>::bytes(padded_)),
          level_memory_((sizeof(double) + sizeof(GroupExtremes)) * static_cast<std::size_t>(block.n_groups)),
          extremes_(level_memory_.as<GroupExtremes>()),
          levels_(reinterpret_cast<double*>(extremes_ + block.n_groups)),
          gradient_(memory_.as<Real>()),
          diagonal_(gradient_ + padded_),
          grows_(flag_memory_.as<char>()),
          shrinks_(flag_memory_.as<char>() + Flags<Real>::bytes(padded_)) {
        grows_.clear(padded_), shrinks_.clear(padded_);
        for (int64_t u = 0; u < padded_; ++u) {
            const bool real = u < block.size;
            gradient_[u] = 0;
            diagonal_[u] = !real        ? 1
                           : block.lazy ? static_cast<Real>(block.lazy->diagonal[u])
                                        : block.matrix[u * block.stride + u];
            if (real) mark(u);
            if (real && diagonal_[u] != diagonal_[0]) diagonal_positions_ = ~int64_t{0};
        }
        for (int64_t g = 0; g < block.n_groups; ++g) levels_[g] = find_level(g);
        each_with_level(
            [this](int64_t u, double level) { gradient_[u] = static_cast<Real>(block_.gradient[u] - level); });
        for (int64_t g = 0; g < block.n_groups; ++g)
            extremes_[g] = scan(block.group_starts[g], block.group_starts[g + 1]);
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
        each_with_level(
            [this](int64_t u, double level) { block_.gradient[u] = static_cast<double>(gradient_[u]) + level; });
        if (result.end == BlockEnd::limit) {
            result.violation = block_violation(block_);
            if (result.violation <= tol) result.end = BlockEnd::solved;
        }
        return result;
    }

  private:
    // About where the gradients of a group's free variables will be.
    double find_level(int64_t g) const {
        const Extremes e = find_extremes(block_, block_.group_starts[g], block_.group_starts[g + 1]);
        return e.up < 0 || e.low < 0 ? 0.0 : 0.5 * e.up_gradient + 0.5 * e.low_gradient;
    }

    template <class See>
    void each_with_level(See see) const {
        for (int64_t u = 0; block_.n_groups == 0 && u < block_.size; ++u) see(u, 0.0);
        for (int64_t g = 0; g < block_.n_groups; ++g)
            for (int64_t u = block_.group_starts[g]; u < block_.group_starts[g + 1]; ++u) see(u, levels_[g]);
    }

    void mark(int64_t u) {
        grows_.set(u, can_grow(block_, u));
        shrinks_.set(u, can_shrink(block_, u));
    }

    const Real* row(int64_t u) const { return block_.matrix + u * block_.stride; }

    void ask_for(const Real* from) const {
        constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Real));
        const int64_t first = padded_ < kAhead ? padded_ : kAhead;
        for (int64_t u = 0; u < first; u += kLine) __builtin_prefetch(from + u, 0, 2);
    }

    // Beyond the row's end too, where no pointer may point: the address is a number.
    MERCER_INLINE static void ask_ahead_of(const Real* place) {
        const auto address = reinterpret_cast<std::uintptr_t>(place) + static_cast<std::uintptr_t>(kAheadBytes);
        __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
    }

    void need(int64_t u) {
        const LazyRows* lazy = block_.lazy;
        if (lazy != nullptr && !lazy->held[u]) lazy->fetch(lazy->context, u);
    }

    // The same lane by lane. What is new comes first: where it is NaN, min and max keep the second, and no comparison
    // holds.
    struct LaneExtremes {
        V up = fill(kInf), low = fill(-kInf);
        V up_at = fill(Real{-1});

        MERCER_INLINE void see(V g, Mask grows, Mask shrinks, V position) {
            const V growing = choose(grows, g, fill(kInf)), shrinking = choose(shrinks, g, fill(-kInf));
            up_at = growing < up ? position : up_at;
            up = min(growing, up);
            low = max(shrinking, low);
        }

        GroupExtremes reduce() const {
            const Winner first = least_of<Real>(up, up_at);
            return {first.at, first.value, -static_cast<double>(least_of<Real>(-low)[0])};
        }
    };

    MERCER_INLINE static auto is_between(V position, int64_t first, int64_t last) {
        return (position >= static_cast<Real>(first)) & (position < static_cast<Real>(last));
    }

    // A vector that a group shares with its neighbours: what is beyond the group's edges counts as NaN, which is
    // neither less nor more.
    MERCER_INLINE void see_inside(LaneExtremes& lanes, int64_t u, int64_t first, int64_t last) const {
        const V position = positions(u);
        lanes.see(is_between(position, first, last) ? load_vector(gradient_ + u) : fill(kNoNumber), grows_.from(u),
                  shrinks_.from(u), position);
    }

    GroupExtremes scan(int64_t first, int64_t last) const {
        LaneExtremes lanes;
        for (int64_t u = first / kWidth * kWidth; u < last; u += kWidth) see_inside(lanes, u, first, last);
        return lanes.reduce();
    }

    // g += step (K_i - K_j), and the extremes of each group of what comes out: one pass over memory. A vector with an
    // edge inside is brought up to date by the first of its groups.
    void update_and_scan(Real step, const Real* row_i, const Real* row_j) {
        // Copies: a store through a vector may alias anything, so that members would be read again after each.
        Real* const gradient = gradient_;
        const Flags<Real> grows = grows_, shrinks = shrinks_;
        int64_t u = 0;
        V position{};
        auto update = [&]() MERCER_LAMBDA_INLINE {
            const V g = load_vector(gradient + u) + step * (load_vector(row_i + u) - load_vector(row_j + u));
            store(gradient + u, g);
            return g;
        };
        for (int64_t group = 0; group < block_.n_groups; ++group) {
            const int64_t first = block_.group_starts[group];
            const int64_t last = group + 1 == block_.n_groups ? padded_ : block_.group_starts[group + 1];
            LaneExtremes lanes;
            auto advance = [&]() MERCER_LAMBDA_INLINE {
                lanes.see(update(), grows.from(u), shrinks.from(u), position);
                u += kWidth, position += kWidth;
            };
            u = first / kWidth * kWidth;
            if (u < first) see_inside(lanes, u, first, last), u += kWidth;
            position = positions(u);
            while (u + 2 * kWidth <= last) {
                ask_ahead_of(row_j + u), ask_ahead_of(row_j + u + kWidth);
                advance(), advance();
            }
            while (u + kWidth <= last) advance();
            if (u < last) update(), see_inside(lanes, u, first, last);
            extremes_[group] = lanes.reduce();
        }
    }

    MERCER_INLINE static V positions(int64_t u) {
        V numbers{};
        for (int lane = 0; lane < kWidth; ++lane) numbers[lane] = static_cast<Real>(lane);
        return numbers + static_cast<Real>(u);
    }

    // Among the variables of the group that can shrink, the one with the largest decrease (g_j - g_i)^2 / curvature.
    int64_t select_partner(int64_t first, int64_t last, const GroupExtremes& e) const {
        return first == 0 && last == block_.size ? select_among<false>(0, padded_, e)
                                                 : select_among<true>(first, last, e);
    }

    // Where the group has edges inside of vectors, what lies beyond is masked; beyond the block nothing can shrink.
    // Differences are shares of the largest, so that squares neither overflow nor vanish. Curvature next to that of
    // equal rows counts as theirs: where the kernel is positive semidefinite, only rows as long as row i come so close
    // to it.
    template <bool masked>
    int64_t select_among(int64_t first, int64_t last, const GroupExtremes& e) const {
        const Real* const matrix_row = row(e.up);
        ask_for(matrix_row);
        const Real own = diagonal_[e.up], flat = 2 * kFlat<Real> * (own < 0 ? -own : own) + kTiny<Real>;
        const Real level = static_cast<Real>(e.up_gradient), share = static_cast<Real>(1.0 / e.violation());
        V most{}, at = fill(Real{-1});
        int64_t u = first / kWidth * kWidth;
        V position = positions(u);
        auto advance = [&]() MERCER_LAMBDA_INLINE {
            V difference = max((load_vector(gradient_ + u) - level) * share, V{});
            if constexpr (masked) difference = is_between(position, first, last) ? difference : V{};
            difference = choose(shrinks_.from(u), difference, V{});
            const V curvature = max(
                own + load_vector(diagonal_ + (u & diagonal_positions_)) - 2 * load_vector(matrix_row + u), fill(flat));
            const V decrease = difference * difference * about_one_over<Real>(curvature);
            at = decrease > most ? position : at;
            most = max(decrease, most);
            u += kWidth, position += kWidth;
        };
        while (u + 2 * kWidth <= last) {
            ask_ahead_of(matrix_row + u), ask_ahead_of(matrix_row + u + kWidth);
            advance(), advance();
        }
        while (u < last) advance();
        return least_of<Real>(-most, at).at;
    }

    int64_t worst_that_shrinks(int64_t first, int64_t last) const {
        int64_t worst = first;
        Real most = -kInf;
        for (int64_t u = first; u < last; ++u)
            if (shrinks_[u] && gradient_[u] > most) worst = u, most = gradient_[u];
        return worst;
    }

    bool pair_step(double tol, double& violation) {
        int64_t group = 0;
        for (int64_t g = 1; g < block_.n_groups; ++g)
            if (extremes_[g].violation() > extremes_[group].violation()) group = g;
        const GroupExtremes worst = extremes_[group];
        const int64_t first = block_.group_starts[group], last = block_.group_starts[group + 1];
        violation = worst.violation();
        if (!(violation > tol && violation > 0.0)) return false;  // a tolerance may be NaN, or negative
        const int64_t i = worst.up;
        need(i);
        int64_t j = select_partner(first, last, worst);
        if (j < 0) j = worst_that_shrinks(first, last);  // no decrease is a number above 0: values are too large
        double* beta = block_.beta;
        const double scale = static_cast<double>(diagonal_[i]) + static_cast<double>(diagonal_[j]);
        const double curvature = __builtin_fmax(scale - 2.0 * static_cast<double>(row(i)[j]),
                                                kFlat<Real> * __builtin_fabs(scale) + kTiny<Real>);
        const double room_i = block_.upper[i] - beta[i], room_j = beta[j] - block_.lower[j];
        double step = (static_cast<double>(gradient_[j]) - static_cast<double>(gradient_[i])) / curvature;
        if (!(step < room_i)) step = room_i;
        if (!(step < room_j)) step = room_j;
        if (!__builtin_isfinite(step)) return false;  // unbounded: there is no minimum along this line
        const double old_i = beta[i], old_j = beta[j];
        beta[i] = step == room_i ? block_.upper[i] : old_i + step;
        beta[j] = step == room_j ? block_.lower[j] : old_j - step;
        if (beta[i] == old_i && beta[j] == old_j) return false;
        need(j);
        ask_for(row(j));
        mark(i), mark(j);
        update_and_scan(static_cast<Real>(step), row(i), row(j));
        return true;
    }

    bool lone_step(double tol, double& violation) {
        int64_t chosen = -1;
        double best = 0.0;
        violation = 0.0;
        for (int64_t u = 0; u < block_.size; ++u) {
            const double g = gradient_[u];
            const double wrong = g < 0.0 ? (grows_[u] ? -g : 0.0) : (shrinks_[u] ? g : 0.0);
            violation = __builtin_fmax(violation, wrong);
            const double gain = wrong * wrong / curvature_of(u);
            if (gain > best) best = gain, chosen = u;
        }
        if (violation <= tol || chosen < 0) return false;
        const double old = block_.beta[chosen];
        double next = old - static_cast<double>(gradient_[chosen]) / curvature_of(chosen);
        next = __builtin_fmin(__builtin_fmax(next, block_.lower[chosen]), block_.upper[chosen]);
        if (next == old) return false;
        block_.beta[chosen] = next;
        need(chosen);
        mark(chosen);
        const Real* matrix_row = row(chosen);
        const Real step = static_cast<Real>(next - old);
        for (int64_t u = 0; u < padded_; u += kWidth)
            store(gradient_ + u, load_vector(gradient_ + u) + step * load_vector(matrix_row + u));
        return true;
    }

    double curvature_of(int64_t u) const { return __builtin_fmax(static_cast<double>(diagonal_[u]), 1e-300); }

    const BlockProblem<Real>& block_;
    int64_t padded_;
    Scratch memory_, flag_memory_, level_memory_;
    GroupExtremes* extremes_;  // of each group, kept up to date: what the next step needs
    double* levels_;           // of each group, taken out of its gradients
    Real *gradient_, *diagonal_;
    Flags<Real> grows_, shrinks_;
    // ANDed with positions: 0 where the diagonal is all one number, so that its first vector serves; otherwise all
    // bits.
    int64_t diagonal_positions_ = 0;
};

}  // namespace mercer::MERCER_ISA
