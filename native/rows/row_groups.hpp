// Divides the rows of a sweep into consecutive groups with sums of their own. The groups depend only on the input, so
// that results do not depend on the number of threads.
#pragma once

#include "parallel/parallel.hpp"
#include "parallel/scratch.hpp"
#include "rows/sweeps.hpp"

namespace mercer::MERCER_ISA {

constexpr int64_t kChunk = 1024;  // rows; groups begin at multiples
constexpr int64_t kMostGroups = 64;
constexpr double kGroupWork = 1 << 18;   // least number of multiplications of a group
constexpr double kGroupBytes = 1 << 26;  // largest size of the sums of all groups

// The cost of a row of the sums, in multiplications.
struct RowCost {
    double sums, gram;
};

class RowGroups {
  public:
    // `n_numbers` is the number of sums of a group.
    RowGroups(const WeightedSums& request, RowCost cost, int64_t n_numbers, int n_threads)
        : request_(request),
          cost_(cost),
          n_rows_(request.table.n_rows),
          n_chunks_((n_rows_ + kChunk - 1) / kChunk),
          memory_(sizeof(double) * static_cast<std::size_t>(n_chunks_ + 1)),
          work_(memory_.as<double>()) {
        const double most = static_cast<double>(n_rows_) * (cost.sums + cost.gram);
        if (most <= kGroupWork) {
            total_ = most;
            first_[0] = 0, first_[1] = n_rows_;
            return;
        }
        parallel_for(n_chunks_, n_rows_ > 1 << 17 ? n_threads : 1, count_chunk, this);
        for (int64_t c = 0; c < n_chunks_; ++c) total_ += work_[c];
        divide(static_cast<double>(n_numbers));
    }

    int64_t count() const { return count_; }
    int64_t first(int64_t group) const { return first_[group]; }
    int64_t last(int64_t group) const { return first_[group + 1]; }
    double work() const { return total_; }

  private:
    void divide(double n_numbers) {
        const double work = total_ / (kGroupWork + 16.0 * n_numbers), bytes = kGroupBytes / (8.0 * n_numbers);
        double most = work < bytes ? work : bytes;
        most = most < static_cast<double>(n_chunks_) ? most : static_cast<double>(n_chunks_);
        count_ = most < 1.0 ? 1 : most > static_cast<double>(kMostGroups) ? kMostGroups : static_cast<int64_t>(most);
        first_[0] = 0;
        double passed = 0.0;
        int64_t c = 0;
        for (int64_t g = 1; g < count_; ++g) {
            for (; c < n_chunks_ && passed < total_ * static_cast<double>(g) / static_cast<double>(count_); ++c)
                passed += work_[c];
            first_[g] = c * kChunk < n_rows_ ? c * kChunk : n_rows_;
        }
        first_[count_] = n_rows_;
    }

    static void count_chunk(void* context, int64_t chunk) {
        auto& groups = *static_cast<RowGroups*>(context);
        const WeightedSums& request = groups.request_;
        const int64_t begin = chunk * kChunk, end = begin + kChunk < groups.n_rows_ ? begin + kChunk : groups.n_rows_;
        int64_t n_sums = 0, n_gram = 0;
        for (int64_t i = begin * request.n_sums; i < end * request.n_sums; ++i) n_sums += request.weights[i] != 0.0;
        if (request.gram_weights)
            for (int64_t i = begin; i < end; ++i) n_gram += request.gram_weights[i] != 0.0;
        const double each =
            request.n_sums > 0 ? static_cast<double>(n_sums) / static_cast<double>(request.n_sums) : 0.0;
        groups.work_[chunk] = each * groups.cost_.sums + static_cast<double>(n_gram) * groups.cost_.gram;
    }

    const WeightedSums& request_;
    const RowCost cost_;
    const int64_t n_rows_, n_chunks_;
    Scratch memory_;
    double* work_;
    double total_ = 0.0;
    int64_t count_ = 1;
    int64_t first_[kMostGroups + 1];
};

}  // namespace mercer::MERCER_ISA
