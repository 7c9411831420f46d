// Bindings of statistics of a table: the means of its columns, and the squared distance of each row from a point.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/tile_request.hpp"

namespace mercer {
namespace {

constexpr int64_t kBlockEntries = 1 << 18;  // entries of a block with its own sums, so that rounding errors stay small
constexpr int64_t kChains = 8;              // independent partial sums of a row, which hide the latency of additions

// Calls visit(element, ...) with a function for each of the rows that returns its element in a column.
template <class Real, class... Rows, class Visit>
void visit_rows(const AnyMatrix& table, Visit visit, Rows... rows) {
    const auto* data = static_cast<const Real*>(table.data());
    const int64_t row_stride = table.stride(0), column_stride = table.stride(1);
    if (column_stride == 1)
        visit([row = data + rows * row_stride](int64_t j) { return static_cast<double>(row[j]); }...);
    else
        visit([row = data + rows * row_stride, column_stride](int64_t j) {
            return static_cast<double>(row[j * column_stride]);
        }...);
}

template <class Real>
std::vector<double> means_of(const AnyMatrix& table) {
    const auto n = static_cast<int64_t>(table.shape(0)), p = static_cast<int64_t>(table.shape(1));
    std::vector<double> means(static_cast<std::size_t>(p)), sums(static_cast<std::size_t>(p));
    const int64_t height = std::max<int64_t>(1, kBlockEntries / p);
    for (int64_t first = 0; first < n; first += height) {
        std::fill(sums.begin(), sums.end(), 0.0);
        const int64_t last = std::min(first + height, n), in_fours = first + (last - first) / 4 * 4;
        const auto add = [&](auto... elements) {
            double* sum = sums.data();
            for (int64_t j = 0; j < p; ++j) sum[j] += (elements(j) + ...);
        };
        for (int64_t i = first; i < in_fours; i += 4) visit_rows<Real>(table, add, i, i + 1, i + 2, i + 3);
        for (int64_t i = in_fours; i < last; ++i) visit_rows<Real>(table, add, i);
        for (int64_t j = 0; j < p; ++j) means[j] += sums[j];
    }
    for (double& mean : means) mean /= static_cast<double>(n);
    return means;
}

template <class Real>
std::vector<double> sq_norms_of(const AnyMatrix& table, const double* centre) {
    const auto p = static_cast<int64_t>(table.shape(1));
    std::vector<double> norms;
    norms.reserve(table.shape(0));
    const auto measure = [&](auto element) {
        double sums[kChains] = {};
        int64_t j = 0;
        for (; j + kChains <= p; j += kChains)
            for (int64_t c = 0; c < kChains; ++c) {
                const double off = element(j + c) - centre[j + c];
                sums[c] += off * off;
            }
        for (int64_t c = 0; j < p; ++j, ++c) {
            const double off = element(j) - centre[j];
            sums[c] += off * off;
        }
        double sum = 0.0;
        for (double some : sums) sum += some;
        norms.push_back(sum);
    };
    for (int64_t i = 0; i < static_cast<int64_t>(table.shape(0)); ++i) visit_rows<Real>(table, measure, i);
    return norms;
}

nb::ndarray<nb::numpy, double, nb::ndim<1>> column_means(AnyMatrix table) {
    require(table.shape(0) > 0 && table.shape(1) > 0, "there must be a row and a column");
    const Scalar scalar = scalar_of(table.dtype());
    std::vector<double> means;
    {
        const ReleasedGil released;
        means = scalar == Scalar::f32 ? means_of<float>(table) : means_of<double>(table);
    }
    return owned(std::move(means));
}

nb::ndarray<nb::numpy, double, nb::ndim<1>> sq_norms(AnyMatrix table, ConstDoubles centre) {
    require(table.shape(1) == centre.shape(0), "the centre must have a number for each column");
    const Scalar scalar = scalar_of(table.dtype());
    std::vector<double> norms;
    {
        const ReleasedGil released;
        norms = scalar == Scalar::f32 ? sq_norms_of<float>(table, centre.data())
                                      : sq_norms_of<double>(table, centre.data());
    }
    return owned(std::move(norms));
}

// The same for CSR rows, as squared distances from 0. The pointers are checked again, because other code may have
// changed them.
template <class Index>
std::vector<double> sq_norms_of_entries(const AnyVector& data, const AnyVector& indptr, auto square) {
    const auto n = static_cast<int64_t>(indptr.shape(0)) - 1, n_entries = static_cast<int64_t>(data.shape(0));
    const auto* starts = static_cast<const Index*>(indptr.data());
    std::vector<double> norms(static_cast<std::size_t>(std::max<int64_t>(0, n)));
    for (int64_t i = 0; i < n; ++i) {
        const int64_t first = starts[i], last = starts[i + 1];
        require(0 <= first && first <= last && last <= n_entries,
                "indptr must not decrease nor pass the number of entries");
        for (int64_t e = first; e < last; ++e) norms[static_cast<std::size_t>(i)] += square(e);
    }
    return norms;
}

template <class Real>
std::vector<double> sq_norms_of_csr(const AnyVector& data, const AnyVector& indptr) {
    const auto square = [values = static_cast<const Real*>(data.data())](int64_t e) {
        return static_cast<double>(values[e]) * static_cast<double>(values[e]);
    };
    return is_wide(indptr.dtype()) ? sq_norms_of_entries<int64_t>(data, indptr, square)
                                   : sq_norms_of_entries<int32_t>(data, indptr, square);
}

nb::ndarray<nb::numpy, double, nb::ndim<1>> sparse_sq_norms(AnyVector data, AnyVector indptr) {
    return owned(scalar_of(data.dtype()) == Scalar::f32 ? sq_norms_of_csr<float>(data, indptr)
                                                        : sq_norms_of_csr<double>(data, indptr));
}

}  // namespace

void bind_spread(nb::module_& m) {
    m.def("column_means", &column_means, nb::arg("table").noconvert());
    m.def("sq_norms", &sq_norms, nb::arg("table").noconvert(), nb::arg("centre").noconvert());
    m.def("sparse_sq_norms", &sparse_sq_norms, nb::arg("data").noconvert(), nb::arg("indptr").noconvert());
}

}  // namespace mercer
