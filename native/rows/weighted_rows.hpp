// The rows that weighted sums visit: the rows with a weight that is not 0.
#pragma once

#include "gram/simd.hpp"
#include "rows/sweeps.hpp"

namespace mercer::MERCER_ISA {

// The rows of a group that have a weight, listed in parts.
class RowsWithWeight {
  public:
    RowsWithWeight(const WeightedSums& request, int64_t first, int64_t last)
        : request_(request), next_(first), last_(last) {}

    // Lists the next rows, at most `most`, and returns their number; 0 at the end.
    int64_t list(int64_t* rows, int64_t most) {
        const double *weights = request_.weights, *gram_weights = request_.gram_weights;
        const int64_t n_sums = request_.n_sums;
        if (n_sums == 1 && gram_weights)
            return list_if(rows, most, [=](int64_t i) MERCER_LAMBDA_INLINE {
                return static_cast<int>(weights[i] != 0.0) | static_cast<int>(gram_weights[i] != 0.0);
            });
        if (n_sums == 1) return list_if(rows, most, [=](int64_t i) MERCER_LAMBDA_INLINE { return weights[i] != 0.0; });
        if (n_sums == 0)
            return list_if(rows, most, [=](int64_t i) MERCER_LAMBDA_INLINE { return gram_weights[i] != 0.0; });
        return list_if(rows, most, [=](int64_t i) MERCER_LAMBDA_INLINE {
            int has_weight = gram_weights ? gram_weights[i] != 0.0 : 0;
            for (int64_t k = 0; k < n_sums; ++k) has_weight |= weights[i * n_sums + k] != 0.0;
            return has_weight;
        });
    }

  private:
    template <class Condition>
    MERCER_INLINE int64_t list_if(int64_t* rows, int64_t most, Condition is_visited) {
        int64_t count = 0;
        for (; next_ < last_ && count < most; ++next_) rows[count] = next_, count += is_visited(next_);
        return count;
    }

    const WeightedSums& request_;
    int64_t next_, last_;
};

}  // namespace mercer::MERCER_ISA
