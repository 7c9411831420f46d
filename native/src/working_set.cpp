#include "mercer/working_set.hpp"

#include <algorithm>
#include <limits>
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
        for_each_active(v, [&](int64_t u) {
            const bool grows = can_grow(v, u), shrinks = can_shrink(v, u);
            const double g = v.gradient[u];
            Level& level = levels_[place(u)];
            if (grows) level.least = std::min(level.least, g);
            if (shrinks) level.most = std::max(level.most, g);
            if (grows && shrinks) level.sum += g, ++level.n_free;
        });
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

// The first `limit` candidates in order.
void keep_worst(std::vector<Candidate>& candidates, int64_t limit) {
    const auto count = std::min(candidates.size(), static_cast<std::size_t>(limit));
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(candidates.begin(), end, candidates.end());
    std::sort(candidates.begin(), end);
    candidates.resize(count);
}

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
        std::vector<int64_t> growing, shrinking;
        for_each_active(v_, [&](int64_t u) {
            if (seen[u] || has(u)) return;
            const double level = levels.of(u).middle;
            if (can_grow(v_, u) && v_.gradient[u] < level) growing.push_back(u);
            if (can_shrink(v_, u) && v_.gradient[u] > level) shrinking.push_back(u);
        });
        const auto n_growing = static_cast<int64_t>(growing.size()),
                   n_shrinking = static_cast<int64_t>(shrinking.size());
        const int64_t growers = std::min(n_growing, std::max(places / 2, places - n_shrinking));
        take_evenly(growing, growers);
        take_evenly(shrinking, std::min(n_shrinking, places - growers));
    }

    void take_worst(const Levels& levels) {
        if (room() <= 0) return;
        std::vector<Candidate> growing, shrinking;
        for_each_active(v_, [&](int64_t u) {
            if (has(u)) return;
            const Level& level = levels.of(u);
            const double g = v_.gradient[u];
            if (can_grow(v_, u) && level.most > g) growing.push_back({level.most - g, u});
            if (can_shrink(v_, u) && g > level.least) shrinking.push_back({g - level.least, u});
        });
        keep_worst(growing, room());
        keep_worst(shrinking, room());
        for (std::size_t k = 0; k < std::max(growing.size(), shrinking.size()); ++k) {
            if (k < growing.size()) take(growing[k].index);
            if (k < shrinking.size()) take(shrinking[k].index);
        }
    }

    std::vector<int64_t> sorted() && {
        std::sort(chosen_.begin(), chosen_.end(), [&](int64_t a, int64_t b) {
            if (v_.groups != nullptr && v_.groups[a] != v_.groups[b]) return v_.groups[a] < v_.groups[b];
            return a < b;
        });
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

    void take_evenly(const std::vector<int64_t>& from, int64_t count) {
        const auto n = static_cast<int64_t>(from.size());
        for (int64_t k = 0; k < count; ++k) take(from[static_cast<std::size_t>(k * n / count)]);
    }

    const Variables& v_;
    int64_t limit_;
    std::vector<char> taken_;
    std::vector<int64_t> chosen_;
};

}  // namespace

Survey survey(const Variables& v) {
    const Levels levels(v);
    Survey found{levels.violation(), levels.n_free(), {}};
    for_each_active(v, [&](int64_t u) {
        const bool grows = can_grow(v, u), shrinks = can_shrink(v, u);
        const Level& level = levels.of(u);
        if ((grows && (shrinks || v.gradient[u] <= level.most)) || (!grows && v.gradient[u] >= level.least))
            found.kept.push_back(u);
    });
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
