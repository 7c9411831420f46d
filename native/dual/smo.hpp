// Sequential minimal optimisation (SMO) on a block. Two variables of one group move against each other, so that the sum
// of the group does not change. The first variable is the worst violator; the second has the largest expected decrease
// [Fan, Chen & Lin 2005, WSS 2]. Without equality constraints one variable moves at a time.
#pragma once

#include "dual/flags.hpp"
#include "dual/kkt.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

// Curvature below this share of k(x,x) + k(z,z) is rounding error; the step then goes to the end of the box.
template <class Real>
constexpr Real kFlat = static_cast<Real>(sizeof(Real) == sizeof(double) ? 1e-15 : 1e-7);
template <class Real>  // the smallest curvature: a diagonal may be 0 or, with an indefinite kernel, negative
constexpr Real kTiny = static_cast<Real>(sizeof(Real) == sizeof(double) ? 1e-300 : 1e-30);

// Gradients are updated in the precision of the matrix, relative to the level of their group. Near the optimum the
// gradients of free variables are then close to 0, and so are their rounding errors. The caller detects float32
// rounding errors when it evaluates the true gradient. Points are always double.
template <class Real>
class SmoSteps {
    using V = VecOf<Real>;
    static constexpr int kWidth = kLanesOf<Real>;
    static constexpr int64_t kAheadBytes = 4096;  // distance of prefetches in a row
    static constexpr int64_t kAhead = kAheadBytes / static_cast<int64_t>(sizeof(Real));
    static constexpr Real kInf = static_cast<Real>(kInfinity), kNoNumber = static_cast<Real>(__builtin_nan(""));
    using Mask = typename Flags<Real>::Mask;

    // The extremes of a group (kkt.hpp) without the index of the largest gradient. The index is needed only if no
    // partner is found, and tracking it would take one more blend for each vector.
    struct GroupExtremes {
        int64_t up = -1;
        double up_gradient = kInfinity, low_gradient = -kInfinity;
        double violation() const { return up < 0 ? 0.0 : __builtin_fmax(0.0, low_gradient - up_gradient); }
    };

    struct Partner {
        int64_t at = -1;
        double gradient = 0.0, shared = 0.0;  // its gradient, and its kernel value with the first variable
    };

    // Without equality constraints: the variable with the largest decrease, g^2 / curvature, and the largest violation.
    struct BestCoordinate {
        int64_t at = -1;
        double violation = 0.0;
    };

  public:
    explicit SmoSteps(const BlockProblem<Real>& block)
        : block_(block),
          padded_(padded(block.size)),
          memory_(sizeof(Real) * static_cast<std::size_t>(3 * padded_ + 1)),
          flag_memory_(2 * Flags<Real>::bytes(padded_)),
          level_memory_((sizeof(double) + sizeof(GroupExtremes)) * static_cast<std::size_t>(block.n_groups)),
          extremes_(level_memory_.as<GroupExtremes>()),
          levels_(reinterpret_cast<double*>(extremes_ + block.n_groups)),
          gradient_(memory_.as<Real>()),
          diagonal_(gradient_ + padded_),
          steepness_(diagonal_ + padded_),
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
        if (block.n_groups > 0) return;
        for (int64_t u = 0; u < padded_; ++u) {
            steepness_[u] = static_cast<Real>(1.0 / __builtin_sqrt(curvature_of(u)));
        }
        best_ = find_best([this](int64_t u) MERCER_LAMBDA_INLINE { return load_vector(gradient_ + u); });
    }

    BlockResult run(double tol, int64_t max_iter) {
        tol_ = tol;
        const BlockEnd end = make_steps(max_iter);
        BlockResult result{end, n_iter_, violation_};
        each_with_level(
            [this](int64_t u, double level) { block_.gradient[u] = static_cast<double>(gradient_[u]) + level; });
        if (result.end == BlockEnd::limit) {
            result.violation = block_violation(block_);
            if (result.violation <= tol) result.end = BlockEnd::solved;
        }
        return result;
    }

  private:
    BlockEnd make_steps(int64_t max_iter) {
        while (n_iter_ < max_iter) {
            const bool moved = block_.n_groups == 0 ? coordinate_step() : pair_step();
            if (violation_ <= tol_) return BlockEnd::solved;
            if (!moved) return BlockEnd::stalled;
            ++n_iter_;
        }
        return BlockEnd::limit;
    }

    // The approximate level of the gradients of a group's free variables.
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

    // Updates whether a variable can grow and can shrink.
    void mark(int64_t u) {
        grows_.set(u, block_.beta[u] < block_.upper[u]);
        shrinks_.set(u, block_.lower[u] < block_.beta[u]);
    }

    const Real* row(int64_t u) const { return block_.matrix + u * block_.stride; }

    int64_t start_of(int64_t group) const { return block_.group_starts[group]; }

    // Prefetches the first values of a row from variable `first` on.
    void ask_for(const Real* matrix_row, int64_t first, int64_t last) const {
        constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Real));
        const int64_t end = last < first + kAhead ? last : first + kAhead;
        for (int64_t u = first; u < end; u += kLine) __builtin_prefetch(matrix_row + u, 0, 2);
    }

    // Prefetches beyond the end of the row too. The address is an integer, because a pointer there is undefined.
    MERCER_INLINE static void ask_ahead_of(const Real* place) {
        const auto address = reinterpret_cast<std::uintptr_t>(place) + static_cast<std::uintptr_t>(kAheadBytes);
        __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
    }

    void need(int64_t u) {
        const LazyRows* lazy = block_.lazy;
        if (lazy != nullptr && !lazy->evaluated[u]) lazy->fetch(lazy->context, u);
    }

    // The extremes of each vector lane. New values are the first operand: if a new value is NaN, min and max return the
    // second operand, and comparisons are false.
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

    // Reads a vector that contains variables of other groups. Their gradients are replaced by NaN, which changes no
    // extreme.
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

    // Computes g += step (K_i - K_j), and the new extremes of each group, in one pass over memory. If a vector has
    // variables of two groups, it is updated with the first group.
    void update_and_scan(Real step, const Real* row_i, const Real* row_j) {
        // Local copies: a vector store may alias members, which the compiler would then read again after each store.
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
            const int64_t first = start_of(group), last = group + 1 == block_.n_groups ? padded_ : start_of(group + 1);
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

    // Selects, among the variables of the group that can shrink, the one with the largest decrease
    // (g_j - g_i)^2 / curvature; -1 if no variable gives a decrease.
    Partner select_partner(int64_t group, const GroupExtremes& worst) const {
        const int64_t first = start_of(group), last = start_of(group + 1);
        const bool is_masked = first % kWidth != 0 || (last % kWidth != 0 && last != block_.size);
        const Winner winner =
            is_masked ? select_among<true>(first, last, worst) : select_among<false>(first, last, worst);
        return winner.at < 0 ? Partner{} : partner_at(winner.at, worst.up);
    }

    Partner partner_at(int64_t j, int64_t i) const {
        return {j, static_cast<double>(gradient_[j]), static_cast<double>(row(i)[j])};
    }

    // `masked`: the group begins or ends within a vector, so that lanes beyond it are masked. Padding after the block
    // cannot shrink. Differences are relative to the largest one, so that squares neither overflow nor underflow. The
    // curvature is at least `flat`, the value for equal rows. With a positive semidefinite kernel, a smaller curvature
    // is only possible for rows whose k(x, x) is about that of row i.
    template <bool masked>
    Winner select_among(int64_t first, int64_t last, const GroupExtremes& e) const {
        const Real* const matrix_row = row(e.up);
        ask_for(matrix_row, first, last);
        const Real diagonal_up = diagonal_[e.up],
                   flat = 2 * kFlat<Real> * (diagonal_up < 0 ? -diagonal_up : diagonal_up) + kTiny<Real>;
        const Real level = static_cast<Real>(e.up_gradient), share = static_cast<Real>(1.0 / e.violation());
        V most{}, at = fill(Real{-1});
        int64_t u = first / kWidth * kWidth;
        V position = positions(u);
        auto advance = [&]() MERCER_LAMBDA_INLINE {
            V difference = max((load_vector(gradient_ + u) - level) * share, V{});
            if constexpr (masked) difference = is_between(position, first, last) ? difference : V{};
            difference = choose(shrinks_.from(u), difference, V{});
            const V curvature =
                max(diagonal_up + load_vector(diagonal_ + (u & diagonal_positions_)) - 2 * load_vector(matrix_row + u),
                    fill(flat));
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
        return least_of<Real>(-most, at);
    }

    int64_t worst_that_shrinks(int64_t first, int64_t last) const {
        int64_t worst = first;
        Real most = -kInf;
        for (int64_t u = first; u < last; ++u)
            if (shrinks_[u] && gradient_[u] > most) worst = u, most = gradient_[u];
        return worst;
    }

    bool pair_step() {
        int64_t group = 0;
        for (int64_t g = 1; g < block_.n_groups; ++g)
            if (extremes_[g].violation() > extremes_[group].violation()) group = g;
        const GroupExtremes worst = extremes_[group];
        violation_ = worst.violation();
        if (!(violation_ > tol_ && violation_ > 0.0)) return false;  // the tolerance may be NaN or negative
        const int64_t i = worst.up;
        need(i);
        Partner partner = select_partner(group, worst);
        if (partner.at < 0)  // no decrease is positive, because values are too large
            partner = partner_at(worst_that_shrinks(start_of(group), start_of(group + 1)), i);
        const int64_t j = partner.at;
        double* beta = block_.beta;
        const double scale = static_cast<double>(diagonal_[i]) + static_cast<double>(diagonal_[j]);
        const double curvature =
            __builtin_fmax(scale - 2.0 * partner.shared, kFlat<Real> * __builtin_fabs(scale) + kTiny<Real>);
        const double room_i = block_.upper[i] - beta[i], room_j = beta[j] - block_.lower[j];
        double step = (partner.gradient - worst.up_gradient) / curvature;
        if (!(step < room_i)) step = room_i;
        if (!(step < room_j)) step = room_j;
        if (!__builtin_isfinite(step)) return false;  // the objective is unbounded along this line
        const double old_i = beta[i], old_j = beta[j];
        beta[i] = step == room_i ? block_.upper[i] : old_i + step;
        beta[j] = step == room_j ? block_.lower[j] : old_j - step;
        if (beta[i] == old_i && beta[j] == old_j) return false;
        need(j);
        mark(i), mark(j);
        ask_for(row(j), 0, padded_);
        update_and_scan(static_cast<Real>(step), row(i), row(j));
        return true;
    }

    // One pass over the gradients; `gradient_at` may update a gradient before it is used.
    template <class Read>
    BestCoordinate find_best(Read gradient_at) const {
        V most{}, at = fill(Real{-1}), worst{};
        V position = positions(0);
        for (int64_t u = 0; u < padded_; u += kWidth, position += kWidth) {
            const V g = gradient_at(u);
            const V growing = choose(grows_.from(u), max(-g, V{}), V{});
            const V wrong = max(choose(shrinks_.from(u), max(g, V{}), V{}), growing);
            // The square root of the decrease, because the decrease itself may overflow.
            const V root = wrong * load_vector(steepness_ + u);
            at = root > most ? position : at;
            most = max(root, most), worst = max(wrong, worst);
        }
        return {least_of<Real>(-most, at).at, -static_cast<double>(least_of<Real>(-worst)[0])};
    }

    bool coordinate_step() {
        const int64_t chosen = best_.at;
        violation_ = best_.violation;
        if (violation_ <= tol_ || chosen < 0) return false;
        const double old = block_.beta[chosen];
        double next = old - static_cast<double>(gradient_[chosen]) / curvature_of(chosen);
        next = __builtin_fmin(__builtin_fmax(next, block_.lower[chosen]), block_.upper[chosen]);
        if (next == old) return false;
        block_.beta[chosen] = next;
        need(chosen);
        mark(chosen);
        const Real* matrix_row = row(chosen);
        const Real step = static_cast<Real>(next - old);
        Real* const gradient = gradient_;
        best_ = find_best([=](int64_t u) MERCER_LAMBDA_INLINE {
            const V g = load_vector(gradient + u) + step * load_vector(matrix_row + u);
            store(gradient + u, g);
            return g;
        });
        return true;
    }

    double curvature_of(int64_t u) const {
        return static_cast<double>(diagonal_[u] > kTiny<Real> ? diagonal_[u] : kTiny<Real>);
    }

    const BlockProblem<Real>& block_;
    int64_t padded_;
    Scratch memory_, flag_memory_, level_memory_;
    GroupExtremes* extremes_;  // of each group
    double* levels_;           // level of each group, which is subtracted from its gradients
    Real *gradient_, *diagonal_;
    Real* steepness_;  // without equality constraints: 1 / sqrt(curvature)
    BestCoordinate best_;
    Flags<Real> grows_, shrinks_;
    // Mask of positions in the diagonal: 0 if all diagonal values are equal, so that the first vector is always used;
    // otherwise all bits.
    int64_t diagonal_positions_ = 0;
    double tol_ = 0.0, violation_ = 0.0;
    int64_t n_iter_ = 0;
};

}  // namespace mercer::MERCER_ISA
