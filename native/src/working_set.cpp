#include "mercer/working_set.hpp"

#include <algorithm>
#include <limits>

namespace mercer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Levels {
    double least = kInfinity;  // m: smallest gradient among the variables that can grow
    double most = -kInfinity;  // M: largest among those that can shrink
};

bool can_grow(const Variables& v, int64_t u) { return v.beta[u] < v.upper[u]; }
bool can_shrink(const Variables& v, int64_t u) { return v.beta[u] > v.lower[u]; }

std::vector<Levels> find_levels(const Variables& v) {
    // Without equality constraints every multiplier is 0: growing violates when g < 0, shrinking when g > 0.
    if (v.groups == nullptr) return {Levels{0.0, 0.0}};
    std::vector<Levels> levels(static_cast<std::size_t>(v.n_groups));
    for (int64_t u = 0; u < v.size; ++u) {
        Levels& level = levels[static_cast<std::size_t>(v.groups[u])];
        if (can_grow(v, u)) level.least = std::min(level.least, v.gradient[u]);
        if (can_shrink(v, u)) level.most = std::max(level.most, v.gradient[u]);
    }
    return levels;
}

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

}  // namespace

double largest_violation(const Variables& v) {
    double worst = 0.0;
    if (v.groups == nullptr) {
        for (int64_t u = 0; u < v.size; ++u) {
            if (v.gradient[u] < 0.0 && can_grow(v, u)) worst = std::max(worst, -v.gradient[u]);
            if (v.gradient[u] > 0.0 && can_shrink(v, u)) worst = std::max(worst, v.gradient[u]);
        }
        return worst;
    }
    for (const Levels& level : find_levels(v)) worst = std::max(worst, level.most - level.least);
    return worst;
}

std::vector<int64_t> select_working_set(const Variables& v, const int64_t* previous, int64_t n_previous,
                                        int64_t limit) {
    std::vector<char> taken(static_cast<std::size_t>(v.size), 0);
    std::vector<int64_t> chosen;
    chosen.reserve(static_cast<std::size_t>(limit));
    auto take = [&](int64_t u) {
        if (taken[static_cast<std::size_t>(u)] || static_cast<int64_t>(chosen.size()) >= limit) return;
        taken[static_cast<std::size_t>(u)] = 1;
        chosen.push_back(u);
    };
    for (int64_t k = 0; k < n_previous && static_cast<int64_t>(chosen.size()) < limit / 2; ++k)
        if (can_grow(v, previous[k]) && can_shrink(v, previous[k])) take(previous[k]);

    const std::vector<Levels> levels = find_levels(v);
    std::vector<Candidate> growing, shrinking;
    growing.reserve(static_cast<std::size_t>(v.size));
    shrinking.reserve(static_cast<std::size_t>(v.size));
    for (int64_t u = 0; u < v.size; ++u) {
        const Levels& level = levels[v.groups == nullptr ? 0 : static_cast<std::size_t>(v.groups[u])];
        const double g = v.gradient[u];
        if (can_grow(v, u) && level.most > g) growing.push_back({level.most - g, u});
        if (can_shrink(v, u) && g > level.least) shrinking.push_back({g - level.least, u});
    }
    keep_worst(growing, limit);
    keep_worst(shrinking, limit);
    for (std::size_t k = 0; k < std::max(growing.size(), shrinking.size()); ++k) {
        if (k < growing.size()) take(growing[k].index);
        if (k < shrinking.size()) take(shrinking[k].index);
    }
    std::sort(chosen.begin(), chosen.end(), [&](int64_t a, int64_t b) {
        if (v.groups != nullptr && v.groups[a] != v.groups[b]) return v.groups[a] < v.groups[b];
        return a < b;
    });
    return chosen;
}

}  // namespace mercer
