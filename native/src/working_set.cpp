#include "mercer/working_set.hpp"

#include <algorithm>
#include <limits>
#include <memory>
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

template <class Visit>
void for_each_active(const Variables& v, Visit visit) {
    if (v.active == nullptr)
        for (int64_t u = 0; u < v.size; ++u) visit(u);
    else
        for (int64_t k = 0; k < v.n_active; ++k) visit(v.active[k]);
}

class Levels {
  public:
    explicit Levels(const Variables& v) : groups_(v.groups) {
        levels_.resize(groups_ == nullptr ? 1 : static_cast<std::size_t>(v.n_groups));
        // Without branches: which way a variable can go is hard to predict.
        auto see = [&](Level& level, int64_t u) {
            const bool grows = can_grow(v, u), shrinks = can_shrink(v, u);
            const double g = v.gradient[u];
            level.least = std::min(level.least, grows ? g : kInfinity);
            level.most = std::max(level.most, shrinks ? g : -kInfinity);
            level.sum += grows & shrinks ? g : 0.0;
            level.n_free += grows & shrinks;
        };
        if (levels_.size() == 1) {
            Level level;  // in registers
            for_each_active(v, [&](int64_t u) { see(level, u); });
            levels_[0] = level;
        } else {
            for_each_active(v, [&](int64_t u) { see(levels_[place(u)], u); });
        }
        for (Level& level : levels_) {
            n_free_ += level.n_free;
            violation_ = std::max(violation_,
                                  groups_ == nullptr ? std::max(-level.least, level.most) : level.most - level.least);
            level.middle =
                level.n_free > 0 ? level.sum / static_cast<double>(level.n_free) : 0.5 * level.least + 0.5 * level.most;
            // Without equality constraints every multiplier is 0: growing violates when g < 0, shrinking when g > 0.
            if (groups_ == nullptr) level.least = level.most = level.middle = 0.0;
        }
    }

    const Level& of(int64_t u) const { return levels_[place(u)]; }

    double violation() const { return violation_; }
    int64_t n_free() const { return n_free_; }

  private:
    std::size_t place(int64_t u) const { return groups_ == nullptr ? 0 : static_cast<std::size_t>(groups_[u]); }

    const int64_t* groups_;
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
        if (!(counts & (candidate.violation >= bar_.violation)) || !(candidate < bar_)) return;
        held_[n_held_++] = candidate;
        if (n_held_ < held_.size()) return;
        std::nth_element(held_.begin(), held_.begin() + (limit_ - 1), held_.end());
        n_held_ = static_cast<std::size_t>(limit_);
        bar_ = held_[n_held_ - 1];
    }

    std::vector<Candidate> in_order() && {
        held_.resize(n_held_);
        std::sort(held_.begin(), held_.end());
        held_.resize(std::min(n_held_, static_cast<std::size_t>(limit_)));
        return std::move(held_);
    }

  private:
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
        for_each_active(v_, [&](int64_t u) {
            const bool counts = !seen[u] & !has(u);
            const double g = v_.gradient[u], middle = levels.of(u).middle;
            growing.add_if(counts & can_grow(v_, u) & (g < middle), u);
            shrinking.add_if(counts & can_shrink(v_, u) & (g > middle), u);
        });
        const int64_t growers = std::min(growing.size(), std::max(places / 2, places - shrinking.size()));
        take_evenly(growing, growers);
        take_evenly(shrinking, std::min(shrinking.size(), places - growers));
    }

    void take_worst(const Levels& levels) {
        if (room() <= 0) return;
        Worst growers(room()), shrinkers(room());
        for_each_active(v_, [&](int64_t u) {
            const bool counts = !has(u);
            const Level& level = levels.of(u);
            const double g = v_.gradient[u];
            growers.see(counts & can_grow(v_, u), {level.most - g, u});
            shrinkers.see(counts & can_shrink(v_, u), {g - level.least, u});
        });
        const std::vector<Candidate> growing = std::move(growers).in_order();
        const std::vector<Candidate> shrinking = std::move(shrinkers).in_order();
        for (std::size_t k = 0; k < std::max(growing.size(), shrinking.size()); ++k) {
            if (k < growing.size()) take(growing[k].index);
            if (k < shrinking.size()) take(shrinking[k].index);
        }
    }

    std::vector<int64_t> sorted() && {
        chosen_.clear();
        for (int64_t u = 0; u < v_.size; ++u)
            if (has(u)) chosen_.push_back(u);
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
    for_each_active(v, [&](int64_t u) {
        const bool grows = can_grow(v, u), shrinks = can_shrink(v, u);
        const Level& level = levels.of(u);
        const double g = v.gradient[u];
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
    chosen.take_worst(levels);
    return std::move(chosen).sorted();
}

}  // namespace mercer
