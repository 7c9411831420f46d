// Epochs over rows in random order, with shrinking: the frame of the solvers that visit a row at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "rows/dual_descent.hpp"
#include "rows/random_order.hpp"

namespace mercer {

// Bounds on the violations of optimality in the last epoch. A row at a bound is shrunken if its gradient is beyond
// them.
struct Thresholds {
    double up = std::numeric_limits<double>::infinity(), down = -std::numeric_limits<double>::infinity();
};

// The state of a row before its step: its share of the duality gap, the violations of optimality in the directions in
// which the gradient of the dual is positive and negative, and whether the row is to be shrunken.
struct Visit {
    double gap = 0.0;
    double up = 0.0, down = 0.0;
    bool shrinks = false;
};

// `Row` has prefetch(i), and visit(i, thresholds), which makes the step of row i and returns a Visit. It may have
// between_epochs(), which is called before each epoch.
template <class Row>
class ShrinkingEpochs final : public DualDescent {
  public:
    // `charges` has n elements; rows of charge 0 are not visited.
    ShrinkingEpochs(Row row, int64_t n, const double* charges, uint64_t seed, bool (*stop)(void*), void* stop_context)
        : row_(std::move(row)), order_(seed), stop_(stop), stop_context_(stop_context) {
        active_.reserve(static_cast<std::size_t>(n));
        for (int64_t i = 0; i < n; ++i)
            if (charges[i] > 0.0) active_.push_back(i);
        n_active_ = static_cast<int64_t>(active_.size());
    }

    double largest_square() const override { return row_.largest_square(); }

    DescentReport run(int64_t most, double target) override {
        DescentReport report{0, 0, 0.0, n_active_, active_.empty()};
        while (report.n_epochs < most && !report.is_finished) {
            const bool is_whole = n_active_ == static_cast<int64_t>(active_.size());
            const bool is_complete = epoch(report);
            ++report.n_epochs;
            report.n_active = n_active_;
            if (!is_complete) break;
            if (!(report.gap <= target)) continue;
            report.is_finished = is_whole;
            n_active_ = static_cast<int64_t>(active_.size());
            thresholds_ = {};
        }
        return report;
    }

  private:
    static constexpr int64_t kAhead = 4;           // rows; how far ahead rows are prefetched
    static constexpr int64_t kBetweenStops = 256;  // rows between two checks whether to stop

    // Visits the active rows once, in random order; returns false if it was stopped.
    bool epoch(DescentReport& report) {
        if constexpr (requires { row_.between_epochs(); }) row_.between_epochs();
        order_.shuffle(active_.data(), n_active_);
        Thresholds seen{0.0, 0.0};
        report.gap = 0.0;
        for (int64_t k = 0; k < n_active_; ++k) {
            if (report.n_steps % kBetweenStops == 0 && stop_ && stop_(stop_context_)) return false;
            if (k + kAhead < n_active_) row_.prefetch(active_[static_cast<std::size_t>(k + kAhead)]);
            const Visit visit = row_.visit(active_[static_cast<std::size_t>(k)], thresholds_);
            ++report.n_steps;
            report.gap += visit.gap;
            seen.up = std::max(seen.up, visit.up), seen.down = std::min(seen.down, visit.down);
            if (visit.shrinks) {
                --n_active_;
                std::swap(active_[static_cast<std::size_t>(k)], active_[static_cast<std::size_t>(n_active_)]);
                --k;
            }
        }
        thresholds_ = {};
        if (seen.up > 0.0) thresholds_.up = seen.up;
        if (seen.down < 0.0) thresholds_.down = seen.down;
        return true;
    }

    Row row_;
    RandomOrder order_;
    bool (*stop_)(void*);
    void* stop_context_;
    std::vector<int64_t> active_;  // the first n_active_ are not shrunken
    int64_t n_active_ = 0;
    Thresholds thresholds_;
};

// ||x||^2 of every row, with the constant.
template <class Rows>
std::vector<double> squares_of(const Rows& rows) {
    std::vector<double> squares(static_cast<std::size_t>(rows.table.n_rows));
    for (int64_t i = 0; i < rows.table.n_rows; ++i) squares[static_cast<std::size_t>(i)] = rows.square(i);
    return squares;
}

inline double largest_of(const std::vector<double>& values) {
    double largest = 0.0;
    for (const double value : values) largest = value > largest ? value : largest;
    return largest;
}

}  // namespace mercer
