#include "mercer/working_set.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

namespace mercer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Level {
    double least = kInfinity;  // m: smallest gradient among the variables that can grow
    double most = -kInfinity;  // M: largest among those that can shrink
    double sum = 0.0;          // of the gradients of free variables
    int64_t n_free = 0;
    double middle = 0.0;  // their mean; or else between m and M
};

bool can_grow(const Variables& v, int64_t u) { return v.beta[u] < v.upper[u]; }
bool can_shrink(const Variables& v, int64_t u) { return v.beta[u] > v.lower[u]; }

// `yes` or `no`, looked up: of a conditional expression compilers make a branch, and which way it goes is hard to
// predict.
double pick(bool which, double yes, double no) {
    const double both[] = {no, yes};
    return both[which];
}

template <class Visit>
void for_each_active(const Variables& v, Visit visit) {
    if (v.active == nullptr)
        for (int64_t u = 0; u < v.size; ++u) visit(u);
    else
        for (int64_t k = 0; k < v.n_active; ++k) visit(v.active[k]);
}

class Levels {
  public:
    explicit Levels(const Variables& v) : v_(v) {
        levels_.resize(v.groups == nullptr ? 1 : static_cast<std::size_t>(v.n_groups));
        // Without branches: which way a variable can go is hard to predict.
        visit_active(levels_, [](Level& level, const Variables& some, int64_t u) {
            const bool grows = can_grow(some, u), shrinks = can_shrink(some, u);
            const double g = some.gradient[u];
            level.least = std::min(level.least, pick(grows, g, kInfinity));
            level.most = std::max(level.most, pick(shrinks, g, -kInfinity));
            level.sum += pick(grows & shrinks, g, 0.0);
            level.n_free += grows & shrinks;
        });
        for (Level& level : levels_) {
            n_free_ += level.n_free;
            violation_ = std::max(violation_,
                                  v.groups == nullptr ? std::max(-level.least, level.most) : level.most - level.least);
            level.middle =
                level.n_free > 0 ? level.sum / static_cast<double>(level.n_free) : 0.5 * level.least + 0.5 * level.most;
            // Without equality constraints every multiplier is 0: growing violates when g < 0, shrinking when g > 0.
            if (v.groups == nullptr) level.least = level.most = level.middle = 0.0;
        }
    }

    // visit(level of its group, variables, u) for each active variable u.
    template <class Visit>
    void for_each_active(Visit visit) const {
        visit_active(levels_, visit);
    }

    double violation() const { return violation_; }
    int64_t n_free() const { return n_free_; }

  private:
    template <class Some, class Visit>
    void visit_active(Some& levels, Visit visit) const {
        const Variables v = v_;  // in registers, as is the level of a single group: nothing else can change them
        if (levels.size() == 1) {
            auto level = levels[0];
            mercer::for_each_active(v, [&](int64_t u) { visit(level, v, u); });
            if constexpr (!std::is_const_v<Some>) levels[0] = level;
        } else {
            mercer::for_each_active(v, [&](int64_t u) { visit(levels[static_cast<std::size_t>(v.groups[u])], v, u); });
        }
    }

    const Variables& v_;
    std::vector<Level> levels_;
    double violation_ = 0.0;
    int64_t n_free_ = 0;
};

struct Candidate {
    double violation;
    int64_t index;
    bool operator<(const Candidate& other) const {
        return violation != other.violation ? violation > other.violation : index < other.index;
    }
};

// The first `limit` of the candidates it has seen.
class Worst {
  public:
    explicit Worst(int64_t limit)
        : limit_(static_cast<std::ptrdiff_t>(limit)), held_(2 * static_cast<std::size_t>(limit)) {}

    void see(bool counts, Candidate candidate) {
        held_[n_held_] = candidate;  // without a branch; there is a place
        n_held_ += counts & (candidate.violation >= bar_.violation) & (candidate < bar_);
        if (n_held_ == held_.size()) cut();
    }

    std::vector<Candidate> in_order() && {
        if (n_held_ > static_cast<std::size_t>(limit_)) cut();
        held_.resize(n_held_);
        std::sort(held_.begin(), held_.end());
        return std::move(held_);
    }

  private:
    void cut() {
        const auto end = held_.begin() + static_cast<std::ptrdiff_t>(n_held_);
        std::nth_element(held_.begin(), held_.begin() + (limit_ - 1), end);
        n_held_ = static_cast<std::size_t>(limit_);
        bar_ = held_[n_held_ - 1];
    }

    std::ptrdiff_t limit_;
    std::vector<Candidate> held_;
    std::size_t n_held_ = 0;
    Candidate bar_{0.0, -1};  // whoever violates nothing is not before it
};

// Indices, one after the other; there is room for all.
class List {
  public:
    explicit List(int64_t room) : indices_(std::make_unique_for_overwrite<int64_t[]>(static_cast<std::size_t>(room))) {}

    void add_if(bool wanted, int64_t u) {  // without a branch
        indices_[size_] = u;
        size_ += wanted ? 1 : 0;
    }

    int64_t operator[](int64_t k) const { return indices_[static_cast<std::size_t>(k)]; }
    int64_t size() const { return static_cast<int64_t>(size_); }

  private:
    std::unique_ptr<int64_t[]> indices_;
    std::size_t size_ = 0;
};

// The working set as it fills.
class Chosen {
  public:
    Chosen(const Variables& v, int64_t limit) : v_(v), limit_(limit), taken_(static_cast<std::size_t>(v.size), 0) {}

    void take_free(const int64_t* previous, int64_t n_previous) {
        for (int64_t k = 0; k < n_previous && room() > limit_ - limit_ / 2; ++k)
            if (can_grow(v_, previous[k]) && can_shrink(v_, previous[k])) take(previous[k]);
    }

    void take_unseen(const Levels& levels, const bool* seen) {
        const int64_t places = room() - 2;  // for the two worst of all: without them nothing might move
        if (places <= 0) return;
        List growing(v_.n_active + 1), shrinking(v_.n_active + 1);
        levels.for_each_active([&, taken = taken_.data()](const Level& level, const Variables& v, int64_t u) {
            const bool counts = !seen[u] & !taken[u];
            const double g = v.gradient[u];
            growing.add_if(counts & can_grow(v, u) & (g < level.middle), u);
            shrinking.add_if(counts & can_shrink(v, u) & (g > level.middle), u);
        });
        const int64_t growers = std::min(growing.size(), std::max(places / 2, places - shrinking.size()));
        take_evenly(growing, growers);
        take_evenly(shrinking, std::min(shrinking.size(), places - growers));
    }

    // Half of the places for either side; returns whether there may be more for places that are left.
    bool take_worst(const Levels& levels) {
        const int64_t half = (room() + 1) / 2;
        if (half <= 0) return false;
        Worst growers(half), shrinkers(half);
        levels.for_each_active([&, taken = taken_.data()](const Level& level, const Variables& v, int64_t u) {
            const bool counts = !taken[u];
            const double g = v.gradient[u];
            growers.see(counts & can_grow(v, u), {level.most - g, u});
            shrinkers.see(counts & can_shrink(v, u), {g - level.least, u});
        });
        const std::vector<Candidate> growing = std::move(growers).in_order();
        const std::vector<Candidate> shrinking = std::move(shrinkers).in_order();
        const std::size_t longer = std::max(growing.size(), shrinking.size());
        for (std::size_t k = 0; k < longer; ++k) {
            if (k < growing.size()) take(growing[k].index);
            if (k < shrinking.size()) take(shrinking[k].index);
        }
        return static_cast<int64_t>(longer) == half;
    }

    std::vector<int64_t> sorted() && {
        std::size_t size = 0;
        chosen_.push_back(0);  // a place for what is not taken
        for (int64_t u = 0; u < v_.size; ++u) {
            chosen_[size] = u;
            size += has(u) ? 1 : 0;
        }
        chosen_.resize(size);
        if (v_.n_groups > 1)
            std::stable_sort(chosen_.begin(), chosen_.end(),
                             [&](int64_t a, int64_t b) { return v_.groups[a] < v_.groups[b]; });
        return std::move(chosen_);
    }

  private:
    int64_t room() const { return limit_ - static_cast<int64_t>(chosen_.size()); }

    bool has(int64_t u) const { return taken_[static_cast<std::size_t>(u)] != 0; }

    void take(int64_t u) {
        if (has(u) || room() <= 0) return;
        taken_[static_cast<std::size_t>(u)] = 1;
        chosen_.push_back(u);
    }

    void take_evenly(const List& from, int64_t count) {
        for (int64_t k = 0; k < count; ++k) take(from[k * from.size() / count]);
    }

    const Variables& v_;
    int64_t limit_;
    std::vector<char> taken_;
    std::vector<int64_t> chosen_;
};

}  // namespace

Survey survey(const Variables& v) {
    const Levels levels(v);
    Survey found{levels.violation(), levels.n_free(), std::vector<int64_t>(static_cast<std::size_t>(v.n_active) + 1)};
    std::size_t n_kept = 0;
    levels.for_each_active([&](const Level& level, const Variables& some, int64_t u) {
        const bool grows = can_grow(some, u), shrinks = can_shrink(some, u);
        const double g = some.gradient[u];
        const bool kept = (grows & (shrinks | (g <= level.most))) | (!grows & (g >= level.least));
        found.kept[n_kept] = u;
        n_kept += kept ? 1 : 0;
    });
    found.kept.resize(n_kept);
    return found;
}

std::vector<int64_t> select_working_set(const Variables& v, const bool* seen, const int64_t* previous,
                                        int64_t n_previous, int64_t limit) {
    const Levels levels(v);
    Chosen chosen(v, limit);
    chosen.take_free(previous, n_previous);
    chosen.take_unseen(levels, seen);
    while (chosen.take_worst(levels)) {
    }
    return std::move(chosen).sorted();
}

}  // namespace mercer
