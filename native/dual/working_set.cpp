#include "dual/working_set.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

namespace mercer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLanes = 8;
constexpr int64_t kMostInBlock = 16;  // places of a block, whose worst violation is stored
constexpr int64_t kBlocks = 4;        // blocks for each wanted violator, so that most of them are in different blocks
constexpr int64_t kPart = 512;        // places processed at a time; they stay in the L1 cache
constexpr int kHalvings = 12;         // bisections of the interval of the threshold
// A variable within this share of the violation of violating its condition is not shrunken.
constexpr double kMargin = 0.125;
// The same without equality constraints, measured from the multiplier 0 instead of from m and M.
constexpr double kLoneMargin = 0.5 + kMargin;

int64_t rounded_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

// Calls visit(first, last) for each part of the places.
template <class Visit>
void for_each_part(int64_t n_places, Visit visit) {
    for (int64_t first = 0; first < n_places; first += kPart) visit(first, std::min(first + kPart, n_places));
}

// Returns for how many numbers below n `is` is true. It counts in doubles, because GCC 12 vectorises no other count of
// comparisons.
template <class Is>
int64_t count(int64_t n, Is is) {
    double counts[kLanes] = {};
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes)
        for (int64_t lane = 0; lane < kLanes; ++lane) counts[lane] += is(k + lane) ? 1.0 : 0.0;
    for (; k < n; ++k) counts[0] += is(k) ? 1.0 : 0.0;
    return static_cast<int64_t>(std::accumulate(counts, counts + kLanes, 0.0));
}

// Writes the numbers below n for which `is` is true, in order, and returns their count. `list` must have one element
// more, because the code has no branches.
template <class Is>
int64_t list_if(int64_t n, std::vector<int64_t>& list, Is is) {
    int64_t* end = list.data();
    for (int64_t first = 0; first < n; first += kPart) {
        double flags[kPart];  // doubles, so that the loop is vectorised
        const int64_t last = std::min(first + kPart, n);
        for (int64_t k = first; k < last; ++k) flags[k - first] = is(k) ? 1.0 : 0.0;
        for (int64_t k = first; k < last; ++k) {
            *end = k;
            end += static_cast<int64_t>(flags[k - first]);
        }
    }
    return end - list.data();
}

struct Candidate {
    double violation;
    int64_t index;
    bool operator<(const Candidate& other) const {
        return violation != other.violation ? violation > other.violation : index < other.index;
    }
};

// Writes the gradient of each variable that can grow, and of each that can shrink. It has no branches, because they
// would be hard to predict.
template <class At>
void note_gradients(const Variables& v, int64_t first, int64_t last, double* __restrict growing,
                    double* __restrict shrinking, At at) {
    const double *beta = v.beta, *gradient = v.gradient, *lower = v.lower, *upper = v.upper;
    for (int64_t k = first; k < last; ++k) {
        const int64_t u = at(k);
        const double b = beta[u], g = gradient[u], least = lower[u], most = upper[u];
        growing[k] = b < most ? g : kInfinity;
        shrinking[k] = b > least ? g : -kInfinity;
    }
}

// Extremes and sums so far, in eight lanes.
struct Lanes {
    double least[kLanes], most[kLanes], sum[kLanes] = {}, n_free[kLanes] = {};

    Lanes() {
        std::fill(least, least + kLanes, kInfinity);
        std::fill(most, most + kLanes, -kInfinity);
    }

    void see(const double* __restrict growing, const double* __restrict shrinking, int64_t count) {
        for (int64_t k = 0; k < count; k += kLanes)
#pragma GCC unroll 1  // needed for vectorisation
            for (int64_t lane = 0; lane < kLanes; ++lane) {
                const double grower = growing[k + lane], shrinker = shrinking[k + lane];
                least[lane] = grower < least[lane] ? grower : least[lane];
                most[lane] = shrinker > most[lane] ? shrinker : most[lane];
                sum[lane] += grower == shrinker ? grower : 0.0;
                n_free[lane] += grower == shrinker ? 1.0 : 0.0;
            }
    }
};

// Writes the larger number of each pair.
void merge_pairs(const double* __restrict from, int64_t n_pairs, double* __restrict to) {
    for (int64_t k = 0; k < n_pairs; ++k) to[k] = from[2 * k] > from[2 * k + 1] ? from[2 * k] : from[2 * k + 1];
}

// Finds the worst violators. It searches only blocks of places whose worst violation is large enough.
template <class ViolationOf>
class Worst {
  public:
    // violation_of(place) is the violation of a place. Blocks are small, so that there are several for each wanted
    // violator.
    Worst(int64_t n_places, int64_t n_wanted, ViolationOf violation_of)
        : n_places_(n_places), violation_of_(violation_of) {
        while (block_ < kMostInBlock && 2 * block_ * kBlocks * n_wanted <= n_places) block_ *= 2;
        for_each_part(n_places, [&](int64_t first, int64_t last) {
            double one[kPart], other[kPart / 2], *violations = one, *spare = other;
            const int64_t count = rounded_up(last - first, block_);
            for (int64_t k = first; k < last; ++k) one[k - first] = violation_of(k);
            std::fill(one + (last - first), one + count, 0.0);
            for (int64_t size = 2; size <= block_; size *= 2, std::swap(violations, spare))
                merge_pairs(violations, count / size, spare);
            worst_.insert(worst_.end(), violations, violations + count / block_);
        });
    }

    // Returns the next `count` violators that are not excluded, or all of them; the weakest of `count` is the last one.
    template <class IndexOf, class IsOut>
    std::vector<Candidate> next(int64_t count, IndexOf index_of, IsOut is_out) {
        const auto size = static_cast<std::size_t>(count);
        std::erase_if(spare_, [&](const Candidate& candidate) { return is_out(candidate.index); });
        n_asked_ += count;
        for (int64_t n = n_asked_; spare_.size() < size && bar_ > 0.0; n += (n + 1) / 2) {
            bar_ = find_bar(n);
            spare_ = beyond(bar_, index_of, is_out);
        }
        const auto last = spare_.begin() + static_cast<std::ptrdiff_t>(std::min(size, spare_.size()));
        if (spare_.size() >= size) std::nth_element(spare_.begin(), last - 1, spare_.end());
        std::vector<Candidate> candidates(spare_.begin(), last);
        spare_.erase(spare_.begin(), last);
        return candidates;
    }

  private:
    // Returns a threshold that the worst violations of at least `count` blocks, and not many more, exceed; 0 if there
    // are fewer blocks.
    double find_bar(int64_t count) const {
        double low = 0.0;
        if (n_beyond(low) <= count) return low;
        double high = *std::max_element(worst_.begin(), worst_.end());
        for (int k = 0; k < kHalvings; ++k) {
            const double middle = 0.5 * low + 0.5 * high;
            const int64_t n = n_beyond(middle);
            (n >= count ? low : high) = middle;
            if (n >= count && n <= count + count / 8) break;
        }
        return low;
    }

    // Returns the violators above the threshold that are not excluded.
    template <class IndexOf, class IsOut>
    std::vector<Candidate> beyond(double bar, IndexOf index_of, IsOut is_out) const {
        std::vector<Candidate> candidates(static_cast<std::size_t>(n_beyond(bar) * block_) + 1);
        std::size_t size = 0;
        for (std::size_t b = 0; b < worst_.size(); ++b) {
            if (!(worst_[b] > bar)) continue;
            const int64_t first = static_cast<int64_t>(b) * block_, last = std::min(first + block_, n_places_);
            for (int64_t k = first; k < last; ++k) {
                const Candidate candidate{violation_of_(k), index_of(k)};
                const bool is_in = !is_out(candidate.index);
                candidates[size] = candidate;  // written without a branch; `candidates` has one element more
                size += is_in & (candidate.violation > bar) ? 1 : 0;
            }
        }
        candidates.resize(size);
        return candidates;
    }

    int64_t n_beyond(double bar) const {
        return count(static_cast<int64_t>(worst_.size()),
                     [bar, worst = worst_.data()](int64_t b) { return worst[b] > bar; });
    }

    int64_t n_places_, block_ = 1, n_asked_ = 0;
    ViolationOf violation_of_;
    std::vector<double> worst_;
    double bar_ = kInfinity;
    std::vector<Candidate> spare_;  // violators above the threshold that have not been returned yet
};

}  // namespace

template <class Visit>
auto Survey::with_levels(Visit visit) const {
    if (levels_.size() == 1) return visit([level = levels_[0]](int64_t) { return level; });
    return visit([this](int64_t place) { return levels_[static_cast<std::size_t>(v_.groups[at(place)])]; });
}

void Survey::measure(const Variables& variables) {
    v_ = variables;
    n_free_ = 0, violation_ = 0.0;
    levels_.assign(v_.groups == nullptr ? 1 : static_cast<std::size_t>(v_.n_groups), Level{});
    const auto room = static_cast<std::size_t>(rounded_up(v_.n_active, kLanes));
    growing_.resize(room), shrinking_.resize(room);
    std::fill(growing_.begin() + v_.n_active, growing_.end(), kInfinity);
    std::fill(shrinking_.begin() + v_.n_active, shrinking_.end(), -kInfinity);
    if (levels_.size() == 1)
        measure_one();
    else
        measure_each();
    for (Level& level : levels_) {
        n_free_ += level.n_free;
        violation_ =
            std::max(violation_, v_.groups == nullptr ? std::max(-level.least, level.most) : level.most - level.least);
        level.middle =
            level.n_free > 0 ? level.sum / static_cast<double>(level.n_free) : 0.5 * level.least + 0.5 * level.most;
        // Without equality constraints every multiplier is 0: growing violates when g < 0, shrinking when g > 0.
        if (v_.groups == nullptr) level.least = level.most = level.middle = 0.0;
        const double margin =
            v_.groups == nullptr ? kLoneMargin * violation_ : kMargin * std::max(0.0, level.most - level.least);
        level.highest = level.most + margin, level.lowest = level.least - margin;
    }
}

void Survey::note(int64_t first, int64_t last) {
    if (v_.active == nullptr)
        note_gradients(v_, first, last, growing_.data(), shrinking_.data(), [](int64_t k) { return k; });
    else
        note_gradients(v_, first, last, growing_.data(), shrinking_.data(),
                       [active = v_.active](int64_t k) { return active[k]; });
}

void Survey::measure_one() {
    Lanes lanes;
    for_each_part(v_.n_active, [&](int64_t first, int64_t last) {
        note(first, last);
        lanes.see(growing_.data() + first, shrinking_.data() + first, last - first);
    });
    Level& level = levels_[0];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
        level.least = std::min(level.least, lanes.least[lane]);
        level.most = std::max(level.most, lanes.most[lane]);
        level.sum += lanes.sum[lane];
        level.n_free += static_cast<int64_t>(lanes.n_free[lane]);
    }
}

void Survey::measure_each() {
    note(0, v_.n_active);
    for (int64_t k = 0; k < v_.n_active; ++k) {
        Level& level = levels_[static_cast<std::size_t>(v_.groups[at(k)])];
        const double grower = growing_[static_cast<std::size_t>(k)], shrinker = shrinking_[static_cast<std::size_t>(k)];
        level.least = std::min(level.least, grower);
        level.most = std::max(level.most, shrinker);
        level.sum += grower == shrinker ? grower : 0.0;
        level.n_free += grower == shrinker ? 1 : 0;
    }
}

// Calls visit(keeps), where keeps(place) says whether the variable stays active.
template <class Visit>
auto Survey::with_keeping(Visit visit) const {
    return with_levels([&](auto level_of) {
        return visit([level_of, growing = growing_.data(), shrinking = shrinking_.data()](int64_t k) {
            const double grower = growing[k], shrinker = shrinking[k];
            return (grower == shrinker) | (grower <= level_of(k).highest) | (shrinker >= level_of(k).lowest);
        });
    });
}

int64_t Survey::n_remaining() const {
    return with_keeping([this](auto keeps) { return count(v_.n_active, keeps); });
}

// Returns the variables at the `count` places for which `is` is true.
template <class Is>
std::vector<int64_t> Survey::listed(int64_t count, Is is) const {
    std::vector<int64_t> list(static_cast<std::size_t>(count) + 1);
    list_if(v_.n_active, list, is);
    list.pop_back();
    if (v_.active != nullptr)
        for (int64_t& k : list) k = v_.active[k];
    return list;
}

std::vector<int64_t> Survey::remaining() const {
    return with_keeping([this](auto keeps) { return listed(count(v_.n_active, keeps), keeps); });
}

std::vector<int64_t> Survey::dropped() const {
    return with_keeping([this](auto keeps) {
        return listed(v_.n_active - count(v_.n_active, keeps), [keeps](int64_t k) { return !keeps(k); });
    });
}

// The working set while it is filled.
class Survey::Chosen {
  public:
    Chosen(Survey& survey, int64_t limit)
        : survey_(survey), room_(limit), members_(static_cast<std::size_t>(survey.v_.size / 64 + 1), 0) {}

    void take_free(const int64_t* previous, int64_t n_previous) {
        const Variables& v = survey_.v_;
        const int64_t least_room = room_ - room_ / 2;
        for (int64_t k = 0; k < n_previous && room_ > least_room; ++k) {
            const int64_t u = previous[k];
            if (v.lower[u] < v.beta[u] && v.beta[u] < v.upper[u]) take(u);
        }
    }

    void take_unseen(const bool* seen) {
        // Two places are reserved for the two worst violators, so that progress is certain.
        const int64_t places = room_ - 2;
        if (places <= 0) return;
        std::vector<int64_t> growing, shrinking;
        survey_.with_levels([&](auto level_of) {
            const double *grower = survey_.growing_.data(), *shrinker = survey_.shrinking_.data();
            const int64_t n_new =
                list_if(survey_.v_.n_active, survey_.new_, [=, this](int64_t k) { return !seen[survey_.at(k)]; });
            const auto unseen = std::span(survey_.new_).first(static_cast<std::size_t>(n_new));
            std::size_t n_off = 0;
            for (const int64_t k : unseen) {
                unseen[n_off] = k;  // written without a branch
                n_off += (grower[k] < level_of(k).middle) | (shrinker[k] > level_of(k).middle) ? 1 : 0;
            }
            for (const int64_t k : unseen.first(n_off)) {
                const int64_t u = survey_.at(k);
                if (!has(u)) (grower[k] < level_of(k).middle ? growing : shrinking).push_back(u);
            }
        });
        const auto n_growing = static_cast<int64_t>(growing.size()),
                   n_shrinking = static_cast<int64_t>(shrinking.size());
        const int64_t growers = std::min(n_growing, std::max(places / 2, places - n_shrinking));
        take_evenly(growing, growers);
        take_evenly(shrinking, std::min(n_shrinking, places - growers));
    }

    // Takes the worst violators of both sides, half of the free places for each, until the set is full or no violator
    // is left.
    void take_worst() {
        survey_.with_levels([this](auto level_of) {
            const auto by_growing = [&, growing = survey_.growing_.data()](int64_t k) {
                return level_of(k).most - growing[k];
            };
            const auto by_shrinking = [&, shrinking = survey_.shrinking_.data()](int64_t k) {
                return shrinking[k] - level_of(k).least;
            };
            const int64_t n_wanted = (room_ + 1) / 2;
            Worst growing(survey_.v_.n_active, n_wanted, by_growing);
            Worst shrinking(survey_.v_.n_active, n_wanted, by_shrinking);
            const auto index_of = [this](int64_t place) { return survey_.at(place); };
            const auto is_member = [this](int64_t u) { return has(u); };
            for (bool more = true; more && room_ > 0;) {
                const int64_t half = (room_ + 1) / 2;
                const std::vector<Candidate> growers = growing.next(half, index_of, is_member);
                const std::vector<Candidate> shrinkers = shrinking.next(half, index_of, is_member);
                // If one place is missing, the weakest violator that can shrink is dropped.
                for (const Candidate& candidate : growers) take(candidate.index);
                for (const Candidate& candidate : shrinkers) take(candidate.index);
                more = static_cast<int64_t>(std::max(growers.size(), shrinkers.size())) == half;
            }
        });
    }

    std::vector<int64_t> sorted() && {
        const Variables& v = survey_.v_;
        std::vector<int64_t> chosen;
        for (std::size_t word = 0; word < members_.size(); ++word)
            for (uint64_t left = members_[word]; left != 0; left &= left - 1)
                chosen.push_back(static_cast<int64_t>(64 * word) + std::countr_zero(left));
        if (v.n_groups > 1)
            std::stable_sort(chosen.begin(), chosen.end(),
                             [&](int64_t a, int64_t b) { return v.groups[a] < v.groups[b]; });
        return chosen;
    }

  private:
    bool has(int64_t u) const { return members_[static_cast<std::size_t>(u / 64)] >> (u % 64) & 1; }

    void take(int64_t u) {
        if (has(u) || room_ <= 0) return;
        members_[static_cast<std::size_t>(u / 64)] |= uint64_t{1} << (u % 64);
        --room_;
    }

    void take_evenly(const std::vector<int64_t>& from, int64_t count) {
        const auto size = static_cast<int64_t>(from.size());
        for (int64_t k = 0; k < count; ++k) take(from[static_cast<std::size_t>(k * size / count)]);
    }

    Survey& survey_;
    int64_t room_;
    std::vector<uint64_t> members_;  // a bit for each variable in the set
};

std::vector<int64_t> Survey::select(const bool* seen, const int64_t* previous, int64_t n_previous, int64_t limit) {
    new_.resize(growing_.size() + 1);
    Chosen chosen(*this, std::min(limit, v_.n_active + n_previous));
    chosen.take_free(previous, n_previous);
    chosen.take_unseen(seen);
    chosen.take_worst();
    return std::move(chosen).sorted();
}

void leave_out_partners(std::vector<int64_t>& chosen, const Variables& v, const int64_t* rows, int64_t n_rows) {
    enum : char { kAbove = 1, kBelow = 2 };
    std::vector<char> moving(static_cast<std::size_t>(n_rows), 0);
    for (const int64_t u : chosen)
        if (v.beta[u] != 0.0) moving[static_cast<std::size_t>(rows[u])] |= v.beta[u] > 0.0 ? kAbove : kBelow;
    std::erase_if(chosen, [&](int64_t u) {
        const int other = (v.upper[u] <= 0.0 ? kAbove : 0) | (v.lower[u] >= 0.0 ? kBelow : 0);
        return v.beta[u] == 0.0 && (moving[static_cast<std::size_t>(rows[u])] & other) != 0;
    });
}

}  // namespace mercer
