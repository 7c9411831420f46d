// Lists of indices from 0 to n - 1.
#pragma once

#include <cstdint>
#include <vector>

namespace mercer {

// The indices in `places` (or all from 0 to n - 1 if `places` is null) that are not in `removed`, in ascending order.
inline std::vector<int64_t> places_without(const int64_t* removed, int64_t n_removed, const int64_t* places,
                                           int64_t n_places, int64_t n) {
    std::vector<char> wanted(static_cast<std::size_t>(n), places != nullptr ? 0 : 1);
    for (int64_t k = 0; places != nullptr && k < n_places; ++k) wanted[static_cast<std::size_t>(places[k])] = 1;
    for (int64_t k = 0; k < n_removed; ++k) wanted[static_cast<std::size_t>(removed[k])] = 0;
    std::vector<int64_t> left(static_cast<std::size_t>(n) + 1);  // one more element: writes are branchless
    std::size_t size = 0;
    for (int64_t i = 0; i < n; ++i) {
        left[size] = i;
        size += wanted[static_cast<std::size_t>(i)] ? 1 : 0;
    }
    left.resize(size);
    return left;
}

}  // namespace mercer
