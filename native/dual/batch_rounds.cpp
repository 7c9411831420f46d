#include "dual/batch_rounds.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "dual/block.hpp"
#include "dual/conditions.hpp"
#include "dual/working_point.hpp"
#include "gram/gather.hpp"

namespace mercer {
namespace {

// In variables. kLeastSet: the smallest working set. kSpare: places of a working set beyond 5/4 of the free variables.
constexpr int64_t kLeastSet = 192, kSpare = 64;
constexpr double kMostWork = 1e8;  // work in one call, about 100 ms, and twice as much within a round
// A round whose working set has all violators must reduce the violation to this share; otherwise it may stagnate.
constexpr double kProgress = 0.5;
constexpr double kMostSingle = 1e30;  // largest kernel value whose sums do not overflow in single precision
// Shares of the tolerance at which all rounds end (kEnd) and at which one round ends (kBlockEnd).
constexpr double kEnd = 0.9, kBlockEnd = 0.7;

using Vars = std::span<const int64_t>;  // variables; those of the first part come first

std::size_t at(int64_t u) { return static_cast<std::size_t>(u); }

class Rounds {
  public:
    Rounds(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits, double* workspace)
        : native_(native),
          p_(problem),
          limits_(limits),
          size_(problem.size()),
          stride_(padded(size_)),
          cached_(workspace),
          matrix_(workspace + size_ * stride_),
          slots_(at(size_), -1),
          groups_(at(size_), 0),
          everybody_(at(size_)),
          gradient_(at(size_)),
          seen_(at(size_), 0),
          precise_(!(problem.largest < kMostSingle)) {
        std::iota(everybody_.begin(), everybody_.end(), 0);
        if (p_.parts[0].shared == nullptr || p_.parts[1].size > 0) return;
        cached_ = p_.parts[0].shared, stride_ = size_, slots_ = everybody_;  // all rows are known
    }

    MachineEnd run() {
        recompute_gradient();
        const BlockEnd end = go_on();
        if (!is_fresh_) refine();
        return {end, n_iter_, n_values_};
    }

  private:
    BlockEnd go_on() {
        // The violation of the last round whose working set had all violators.
        double last = std::numeric_limits<double>::infinity();
        while (true) {
            survey_.measure({size_, p_.beta, gradient_.data(), p_.lower, p_.upper,
                             p_.grouped ? groups_.data() : nullptr, n_groups(), nullptr, size_});
            if (survey_.violation() <= (is_fresh_ ? 1.0 : kEnd) * limits_.tol) {
                if (is_fresh_) return BlockEnd::solved;
                refine();
                continue;
            }
            if (steps_left() <= 0 || work() > kMostWork) return BlockEnd::limit;
            if (survey_.violation() > kProgress * last) return BlockEnd::stalled;
            choose();
            const double rise = precise_ ? round<double>() : round<float>();
            last = precise_ && holds_all_ ? survey_.violation() : std::numeric_limits<double>::infinity();
            if (rise > 0.0) continue;
            if (precise_) return BlockEnd::stalled;
            precise_ = true;  // rounding limits the progress of single precision
        }
    }

    double work() const { return work_ + limits_.value_work * static_cast<double>(n_values_); }
    int64_t n_groups() const { return p_.grouped ? 1 : 0; }
    int64_t steps_left() const {
        return limits_.max_iter < 0 ? std::numeric_limits<int64_t>::max() : limits_.max_iter - n_iter_;
    }

    void choose() {
        int64_t most = std::max(survey_.n_free() + survey_.n_free() / 4 + kSpare, kLeastSet);
        if (precise_)
            while (most * padded(most) > machine_set_room(size_)) --most;
        holds_all_ = survey_.n_remaining() <= most;
        chosen_ = holds_all_ ? survey_.remaining()
                             : survey_.select(reinterpret_cast<const bool*>(seen_.data()), chosen_.data(),
                                              static_cast<int64_t>(chosen_.size()), most);
        for (const int64_t u : chosen_) seen_[at(u)] = 1;
        // In each part, variables with stored rows come first, so that both kinds are contiguous in the set's matrix.
        const auto middle = std::lower_bound(chosen_.begin(), chosen_.end(), p_.parts[0].size);
        for (const auto& [first, last] : {std::pair(chosen_.begin(), middle), std::pair(middle, chosen_.end())})
            std::stable_partition(first, last, [this](int64_t u) { return is_cached(u); });
    }

    // Solves the problem on the working set and updates the values; returns the increase of the dual objective.
    template <class Real>
    double round() {
        const auto size = static_cast<int64_t>(chosen_.size());
        WorkingPoint point(survey_.variables(), chosen_.data(), size);
        const BlockProblem<Real> problem = point.problem<Real>(fill<Real>(), padded(size));
        Block<Real> block(
            native_, problem,
            limits_of_round<Real>(kBlockEnd * limits_.tol, survey_.violation(), p_.largest, holds_all_, smo_slow_));
        while (!block.is_finished() && work() + block.work() < 2.0 * kMostWork)
            block.step(steps_left() - block.n_iter());
        n_iter_ += block.n_iter(), work_ += block.work(), smo_slow_ = block.smo_slow();
        point.store(point.beta, p_.beta);
        const WorkingPoint::Moves moves = point.moves();
        n_moved_ = static_cast<int64_t>(moves.variables.size()), last_size_ = size;
        add_rows(moves.variables, moves.changes, gradient_.data());
        work_ += static_cast<double>(size * size + (n_moved_ + 1) * size_);
        is_fresh_ = false;
        return point.rise([this](int64_t u) { return gradient_[at(u)]; });
    }

    // Fills K[W, W]: stored rows are copied, other rows are evaluated.
    template <class Real>
    Real* fill() {
        const auto size = static_cast<int64_t>(chosen_.size()), stride = padded(size);
        auto* matrix = reinterpret_cast<Real*>(matrix_);
        // If parts are shared, values are expensive. If half of the last set moved, half of this set will probably
        // move. Whole rows are then evaluated at once, which costs less than first evaluating their part in the set.
        if (p_.parts[0].shared != nullptr && 2 * n_moved_ >= last_size_) cache_rows(chosen_);
        const int64_t n_known =
            std::count_if(chosen_.begin(), chosen_.end(), [this](int64_t u) { return is_cached(u); });
        if (2 * n_known < size) {  // because half of a symmetric matrix is evaluated
            evaluate(chosen_, chosen_, true, matrix, stride);
        } else {
            for (int64_t first = 0, last; first < size; first = last) {
                const bool are_cached = is_cached(chosen_[at(first)]);
                for (last = first + 1; last < size && is_cached(chosen_[at(last)]) == are_cached;) ++last;
                const Vars some = Vars(chosen_).subspan(at(first), at(last - first));
                Real* out = matrix + first * stride;
                if (are_cached)
                    gather<double, Real>({cached_, stride_, slots_of(some).data(), last - first, chosen_.data(), size},
                                         out, stride, 1);
                else
                    evaluate(some, chosen_, false, out, stride);
            }
        }
        for (int64_t k = 0; k < size; ++k) std::fill(matrix + k * stride + size, matrix + (k + 1) * stride, Real{0});
        return matrix;
    }

    // Computes out += K[:, rows] weights.
    void add_rows(Vars rows, const std::vector<double>& weights, double* out) {
        cache_rows(rows);
        const std::vector<int64_t> slots = slots_of(rows);
        native_.combine({cached_, stride_, slots.data(), static_cast<int64_t>(slots.size()), nullptr, size_},
                        {weights.data(), out, 1}, 1);
    }

    // Evaluates and stores rows that are not stored yet.
    void cache_rows(Vars rows) {
        std::vector<int64_t> fresh;
        for (const int64_t u : rows)
            if (!is_cached(u)) fresh.push_back(u);
        if (fresh.empty()) return;
        std::sort(fresh.begin(), fresh.end());
        evaluate(fresh, everybody_, false, cached_ + n_cached_ * stride_, stride_);
        for (const int64_t u : fresh) slots_[at(u)] = n_cached_++;
    }

    void refine() {
        if (p_.grouped) balance(size_, p_.beta, find_sum(size_, p_.start), p_.lower, p_.upper);
        recompute_gradient();
        precise_ = true;  // if another round is needed, it is in double precision
    }

    void recompute_gradient() {
        std::vector<int64_t> support;
        std::vector<double> weights;
        for (int64_t u = 0; u < size_; ++u)
            if (p_.beta[u] != 0.0) support.push_back(u), weights.push_back(p_.beta[u]);
        std::fill_n(p_.values, size_, 0.0);
        add_rows(support, weights, p_.values);
        for (int64_t u = 0; u < size_; ++u) gradient_[at(u)] = p_.values[u] + p_.linear[u];
        is_fresh_ = true;
    }

    // Writes out = K[left, right]; values within a part come from its shared matrix if there is one.
    template <class Real>
    void evaluate(Vars left, Vars right, bool symmetric, Real* out, int64_t stride) {
        if (p_.parts[0].shared == nullptr) return evaluate_directly(left, right, symmetric, out, stride);
        const auto n_left = static_cast<int64_t>(within(left, 0).size()),
                   n_right = static_cast<int64_t>(within(right, 0).size());
        Real *corner = out + n_right, *below = out + n_left * stride;
        copy_shared(0, left, right, out, stride);
        copy_shared(1, left, right, below + n_right, stride);
        evaluate_directly(within(left, 0), within(right, 1), false, corner, stride);
        if (!symmetric) return evaluate_directly(within(left, 1), within(right, 0), false, below, stride);
        for (int64_t i = 0; i < static_cast<int64_t>(left.size()) - n_left; ++i)
            for (int64_t j = 0; j < n_right; ++j) below[i * stride + j] = corner[j * stride + i];
    }

    template <class Real>
    void copy_shared(int part, Vars left, Vars right, Real* out, int64_t stride) const {
        const std::vector<int64_t> rows = places_in(part, left), columns = places_in(part, right);
        gather<double, Real>({p_.parts[part].shared, p_.parts[part].size, rows.data(),
                              static_cast<int64_t>(rows.size()), columns.data(), static_cast<int64_t>(columns.size())},
                             out, stride, 1);
    }

    template <class Real>
    void evaluate_directly(Vars left, Vars right, bool symmetric, Real* out, int64_t stride) {
        const std::vector<int64_t> rows = rows_of(left), columns = rows_of(right);
        TileRequest request = p_.kernel;
        request.left.rows = rows.data(), request.left.count = static_cast<int64_t>(rows.size());
        request.right.rows = columns.data(), request.right.count = static_cast<int64_t>(columns.size());
        request.symmetric = symmetric;
        n_values_ += request.left.count * request.right.count;
        if constexpr (std::is_same_v<Real, float>)
            native_.block_single(request, out, stride);
        else
            native_.block(request, out, stride);
    }

    // Returns the variables of one part.
    Vars within(Vars variables, int part) const {
        const auto middle = std::partition_point(variables.begin(), variables.end(),
                                                 [this](int64_t u) { return u < p_.parts[0].size; });
        return part == 0 ? Vars(variables.begin(), middle) : Vars(middle, variables.end());
    }

    std::vector<int64_t> places_in(int part, Vars variables) const {
        const Vars part_variables = within(variables, part);
        std::vector<int64_t> places(part_variables.begin(), part_variables.end());
        for (int64_t& u : places) u -= part == 0 ? 0 : p_.parts[0].size;
        return places;
    }

    bool is_cached(int64_t u) const { return slots_[at(u)] >= 0; }

    std::vector<int64_t> slots_of(Vars variables) const {
        std::vector<int64_t> slots;
        for (const int64_t u : variables) slots.push_back(slots_[at(u)]);
        return slots;
    }

    std::vector<int64_t> rows_of(Vars variables) const {
        std::vector<int64_t> rows;
        for (const int64_t u : variables) rows.push_back(p_.kernel.left.rows[u]);
        return rows;
    }

    const Implementation& native_;
    const MachineProblem& p_;
    const MachineLimits& limits_;
    const int64_t size_;
    int64_t stride_;
    double *cached_, *matrix_;    // stored rows in the order of their evaluation; the matrix of the set
    std::vector<int64_t> slots_;  // for each variable the index of its stored row, or -1
    std::vector<int64_t> groups_, everybody_, chosen_;
    std::vector<double> gradient_;
    std::vector<char> seen_;
    Survey survey_;
    int64_t n_cached_ = 0, n_moved_ = 0, last_size_ = 1, n_iter_ = 0, n_values_ = 0;
    double work_ = 0.0;
    bool is_fresh_ = false;  // whether the gradient was computed from the point alone, not by updates
    bool precise_, smo_slow_ = false, holds_all_ = false;
};

}  // namespace

MachineEnd machine_rounds(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits,
                          double* workspace) {
    return Rounds(native, problem, limits, workspace).run();
}

}  // namespace mercer
