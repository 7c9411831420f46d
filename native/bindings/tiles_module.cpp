// Bindings of tables, compiled kernels, and the evaluation of kernel values by tiles.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"
#include "gram/tile_request.hpp"

namespace mercer {
namespace {

template <class Real>
void block(const std::string& isa, const CompiledKernel& kernel, const Table& left,
           std::optional<ConstIndices> left_rows, const Table& right, std::optional<ConstIndices> right_rows,
           std::optional<ConstDoubles> centre, MatrixOf<Real> out, int n_threads, bool rounded) {
    const Implementation& native = implementation(isa);
    const TileRequest request = make_request(native, kernel, left, left_rows, right, right_rows, centre, n_threads);
    require(static_cast<int64_t>(out.shape(0)) == request.left.count &&
                static_cast<int64_t>(out.shape(1)) == request.right.count &&
                (out.size() == 0 || out.shape(1) <= 1 || out.stride(1) == 1),
            "out must have a row per left row, a column per right row and contiguous rows");
    const ReleasedGil released;
    if constexpr (std::is_same_v<Real, float>)
        (rounded ? native.block_rounded : native.block_single)(request, out.data(), out.stride(0));
    else
        native.block(request, out.data(), out.stride(0));
}

template <bool single>
void matvec(const std::string& isa, const CompiledKernel& kernel, const Table& left,
            std::optional<ConstIndices> left_rows, const Table& right, std::optional<ConstIndices> right_rows,
            std::optional<ConstDoubles> centre, nb::ndarray<const double, nb::ndim<2>, nb::c_contig> vectors,
            nb::ndarray<double, nb::ndim<2>, nb::c_contig> out, int n_threads, int64_t part, int64_t parts) {
    const Implementation& native = implementation(isa);
    TileRequest request = make_request(native, kernel, left, left_rows, right, right_rows, centre, n_threads);
    require(0 <= part && part < parts, "part must be one of the parts");
    request.part = part, request.parts = parts;
    require(static_cast<int64_t>(vectors.shape(0)) == request.right.count &&
                static_cast<int64_t>(out.shape(0)) == request.left.count && vectors.shape(1) == out.shape(1),
            "vectors must have a row per right row, out a row per left row, both the same number of columns");
    const ReleasedGil released;
    (single ? native.matvec_single : native.matvec)(request, vectors.data(), static_cast<int64_t>(vectors.shape(1)),
                                                    out.data());
}

template <class Real>
void bind_block(nb::module_& m) {
    m.def("block", &block<Real>, nb::arg("isa"), nb::arg("kernel"), nb::arg("left"),
          nb::arg("left_rows").noconvert().none(), nb::arg("right"), nb::arg("right_rows").noconvert().none(),
          nb::kw_only(), nb::arg("centre").noconvert().none(), nb::arg("out").noconvert(), nb::arg("n_threads"),
          nb::arg("rounded") = false);
}

template <bool single>
void bind_matvec(nb::module_& m, const char* name) {
    m.def(name, &matvec<single>, nb::arg("isa"), nb::arg("kernel"), nb::arg("left"),
          nb::arg("left_rows").noconvert().none(), nb::arg("right"), nb::arg("right_rows").noconvert().none(),
          nb::kw_only(), nb::arg("centre").noconvert().none(), nb::arg("vectors").noconvert(),
          nb::arg("out").noconvert(), nb::arg("n_threads"), nb::arg("part") = 0, nb::arg("parts") = 1);
}

}  // namespace

void bind_tiles(nb::module_& m) {
    nb::class_<Table>(m, "Table")
        .def(nb::init<AnyMatrix>(), nb::arg("array").noconvert())
        .def(nb::init<AnyMatrix, ConstUnits, double, bool>(), nb::arg("array").noconvert(),
             nb::arg("units").noconvert(), nb::arg("step"), nb::arg("bytes"))
        .def(nb::init<AnyVector, AnyVector, AnyVector, int64_t>(), nb::arg("data").noconvert(),
             nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_features"))
        .def(nb::init<ConstWords, int64_t, double>(), nb::arg("words").noconvert(), nb::arg("n_features"),
             nb::arg("step"));
    nb::class_<CompiledKernel>(m, "CompiledKernel")
        .def(nb::init<const std::vector<int32_t>&, const std::vector<double>&, bool,
                      const std::vector<std::vector<int32_t>>&>(),
             nb::arg("ops"), nb::arg("arguments"), nb::arg("direct") = false,
             nb::arg("columns") = std::vector<std::vector<int32_t>>{});
    bind_block<double>(m);
    bind_block<float>(m);
    bind_matvec<false>(m, "matvec");
    bind_matvec<true>(m, "matvec_single");
}

}  // namespace mercer
