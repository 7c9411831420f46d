#include "dual/in_memory_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dual/block.hpp"
#include "dual/working_point.hpp"
#include "gram/gather.hpp"

namespace mercer {
namespace {

// In variables. kLeastBlock: the smallest working set. kSpare: places of a working set beyond 5/4 of the free
// variables.
constexpr int64_t kLeastBlock = 384, kSpare = 128;
// A round whose working set has all violators must reduce the violation to this share; otherwise it may stagnate.
constexpr double kProgress = 0.5;

template <class Stored>
class Rounds {
  public:
    Rounds(const Implementation& native, const InMemoryProblem<Stored>& problem, const InMemoryLimits& limits,
           void* workspace, int64_t room)
        : native_(native), p_(problem), limits_(limits), workspace_(workspace), room_(room) {
        const auto size = static_cast<std::size_t>(problem.size);
        gradient_.resize(size);
        for (std::size_t u = 0; u < size; ++u) {
            largest_ = std::max(largest_, std::fabs(static_cast<double>(p_.matrix[p_.rows[u] * (p_.stride + 1)])));
        }
    }

    InMemoryResult run() {
        InMemoryResult result = go_on();
        result.work = work_;
        return result;
    }

  private:
    InMemoryResult go_on() {
        InMemoryResult result{BlockEnd::limit, 0, 0.0, limits_.precise, limits_.smo_slow, 0, 0.0};
        const int64_t most = limits_.max_iter;
        // The violation of the last round whose working set had all violators.
        double last = std::numeric_limits<double>::infinity();
        while (true) {
            for (int64_t u = 0; u < p_.size; ++u) gradient_[static_cast<std::size_t>(u)] = gradient_of(u);
            survey_.measure(variables());
            result.violation = survey_.violation();
            if (survey_.violation() <= limits_.tol) {
                result.end = BlockEnd::solved;
                return result;
            }
            if (result.n_iter >= most || work_ >= limits_.max_work || stopped_) return result;
            if (survey_.violation() > kProgress * last) {
                result.end = BlockEnd::stalled;
                return result;
            }
            const int64_t size =
                std::clamp(survey_.n_free() + survey_.n_free() / 4 + kSpare, kLeastBlock, limits_.max_block);
            const int64_t bound = std::min(size, survey_.n_remaining());
            result.wanted = bound * padded(bound) * (result.precise ? 8 : 4);
            if (result.wanted > room_) return result;
            choose(size);
            const double rise = result.precise ? round<double>(result, most) : round<float>(result, most);
            last = result.precise && holds_all_ ? result.violation : std::numeric_limits<double>::infinity();
            if (rise > 0.0 || stopped_ || result.n_iter >= most) continue;
            if (result.precise) {
                result.end = BlockEnd::stalled;
                return result;
            }
            result.precise = true;  // rounding limits the progress of single precision
        }
    }

    Variables variables() const {
        return {p_.size, p_.beta, gradient_.data(), p_.lower, p_.upper, p_.groups, p_.n_groups, nullptr, p_.size};
    }

    double gradient_of(int64_t u) const {
        return p_.values[p_.rows[u]] + p_.linear[u] + (p_.ridge ? p_.ridge[u] * p_.beta[u] : 0.0);
    }

    // Selects all active variables, or a working set of them, sorted by group.
    void choose(int64_t size) {
        holds_all_ = survey_.n_remaining() <= size;
        if (holds_all_) {
            chosen_ = survey_.remaining();
            if (p_.n_groups > 1)
                std::stable_sort(chosen_.begin(), chosen_.end(),
                                 [&](int64_t a, int64_t b) { return p_.groups[a] < p_.groups[b]; });
        } else {
            std::vector<int64_t> previous;
            for (int64_t u = 0; u < p_.size; ++u)
                if (p_.seen[u] == 2) previous.push_back(u);
            seen_.assign(p_.seen, p_.seen + p_.size);
            for (char& flag : seen_) flag = flag != 0;
            chosen_ = survey_.select(reinterpret_cast<const bool*>(seen_.data()), previous.data(),
                                     static_cast<int64_t>(previous.size()), size);
            holds_all_ = static_cast<int64_t>(chosen_.size()) < size;
        }
        leave_out_partners();
        for (int64_t u = 0; u < p_.size; ++u) p_.seen[u] = p_.seen[u] != 0;
        for (const int64_t u : chosen_) p_.seen[u] = 2;
    }

    // Partners stay if they are in another group, because both can then be nonzero, and no kernel value is saved here.
    // They also stay if a row occurs twice on the same side.
    void leave_out_partners() {
        if (p_.n_groups > 1 || (p_.size <= p_.n_rows && !has_duplicates())) return;
        const std::size_t size = chosen_.size();
        mercer::leave_out_partners(chosen_, variables(), p_.rows, p_.n_rows);
        holds_all_ = holds_all_ && chosen_.size() == size;
    }

    bool has_duplicates() {
        if (has_duplicates_ < 0) {
            std::vector<char> used_rows(static_cast<std::size_t>(p_.n_rows), 0);
            has_duplicates_ = 0;
            for (int64_t u = 0; u < p_.size; ++u) {
                char& flag = used_rows[static_cast<std::size_t>(p_.rows[u])];
                has_duplicates_ = has_duplicates_ | flag;
                flag = 1;
            }
        }
        return has_duplicates_ == 1;
    }

    // Provides the matrix of the working set. A row is copied when a step first needs it, because in many rounds few
    // variables move.
    template <class Real>
    class WorkingMatrix : public LazyRows {
      public:
        WorkingMatrix(const InMemoryProblem<Stored>& problem, const std::vector<int64_t>& chosen, Real* values)
            : LazyRows{&fetch_row, this, nullptr, nullptr},
              problem_(problem),
              chosen_(chosen),
              values_(values),
              size_(static_cast<int64_t>(chosen.size())),
              stride_(padded(size_)) {
            for (const int64_t u : chosen) {
                const int64_t row = problem.rows[u];
                rows_.push_back(row);
                diagonal_.push_back(static_cast<double>(problem.matrix[row * (problem.stride + 1)]) + ridge(u));
            }
            evaluated_.resize(chosen.size(), 0);
            evaluated = evaluated_.data(), diagonal = diagonal_.data();
        }

        const Real* values() const { return values_; }
        int64_t stride() const { return stride_; }

      private:
        static void fetch_row(void* self, int64_t i) { static_cast<WorkingMatrix*>(self)->copy_row(i); }

        void copy_row(int64_t i) {
            const auto at = static_cast<std::size_t>(i);
            Real* row = values_ + i * stride_;
            gather<Stored, Real>({problem_.matrix, problem_.stride, &rows_[at], 1, rows_.data(), size_}, row, stride_,
                                 1);
            std::fill(row + size_, row + stride_, Real{0});
            row[i] += static_cast<Real>(ridge(chosen_[at]));
            evaluated_[at] = 1;
        }

        double ridge(int64_t u) const { return problem_.ridge ? problem_.ridge[u] : 0.0; }

        const InMemoryProblem<Stored>& problem_;
        const std::vector<int64_t>& chosen_;
        Real* values_;
        int64_t size_, stride_;
        std::vector<int64_t> rows_;
        std::vector<double> diagonal_;
        std::vector<char> evaluated_;
    };

    // Solves the problem on the working set and updates the values; returns the increase of the dual objective.
    template <class Real>
    double round(InMemoryResult& result, int64_t most) {
        const auto size = static_cast<int64_t>(chosen_.size());
        WorkingMatrix<Real> matrix(p_, chosen_, static_cast<Real*>(workspace_));
        WorkingPoint point(survey_.variables(), chosen_.data(), size);
        BlockProblem<Real> block = point.problem<Real>(matrix.values(), matrix.stride());
        block.stop = p_.stop, block.stop_context = p_.stop_context, block.lazy = &matrix;
        solve(block, result, most);
        return follow(point);
    }

    template <class Real>
    void solve(const BlockProblem<Real>& problem, InMemoryResult& result, int64_t most) {
        Block<Real> block(native_, problem,
                          limits_of_round<Real>(limits_.tol, result.violation, largest_, holds_all_, result.smo_slow));
        while (!block.is_finished() && !is_stopped()) block.step(most - result.n_iter - block.n_iter());
        result.n_iter += block.n_iter(), work_ += block.work(), result.smo_slow = block.smo_slow();
    }

    // Adds the columns of the variables that moved to the values; returns the increase of the dual objective.
    double follow(const WorkingPoint& point) {
        point.store(point.beta, p_.beta);
        WorkingPoint::Moves moves = point.moves();
        for (int64_t& u : moves.variables) u = p_.rows[u];
        const CachedRows<Stored> cached{
            p_.matrix, p_.stride, moves.variables.data(), static_cast<int64_t>(moves.variables.size()),
            nullptr,   p_.n_rows};
        combine_of<Stored>(native_)(cached, {moves.changes.data(), p_.values, 1}, 1);
        work_ += static_cast<double>(chosen_.size() * chosen_.size()) +
                 static_cast<double>(moves.variables.size()) * static_cast<double>(p_.n_rows);
        return point.rise([this](int64_t u) { return gradient_of(u); });
    }

    bool is_stopped() { return stopped_ = stopped_ || (p_.stop != nullptr && p_.stop(p_.stop_context)); }

    const Implementation& native_;
    const InMemoryProblem<Stored>& p_;
    const InMemoryLimits& limits_;
    void* workspace_;
    int64_t room_;
    Survey survey_;
    std::vector<double> gradient_;
    std::vector<int64_t> chosen_;
    std::vector<char> seen_;
    double work_ = 0.0, largest_ = 0.0;  // largest_: largest element of the diagonal
    int has_duplicates_ = -1;
    bool holds_all_ = false, stopped_ = false;
};

}  // namespace

template <class Stored>
InMemoryResult in_memory_rounds(const Implementation& native, const InMemoryProblem<Stored>& problem,
                                const InMemoryLimits& limits, void* workspace, int64_t room) {
    return Rounds<Stored>(native, problem, limits, workspace, room).run();
}

template InMemoryResult in_memory_rounds(const Implementation&, const InMemoryProblem<float>&, const InMemoryLimits&,
                                         void*, int64_t);
template InMemoryResult in_memory_rounds(const Implementation&, const InMemoryProblem<double>&, const InMemoryLimits&,
                                         void*, int64_t);

}  // namespace mercer
