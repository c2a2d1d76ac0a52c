"""The scikit-learn face of the table encoder."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from driftsurf.encoding import TableEncoder

__all__ = ["TableTransformer"]


class TableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """:class:`~driftsurf.encoding.TableEncoder` for pipelines: frames of mixed columns in, rows of numbers out.

    Parameters
    ----------
    max_categories, n_hashes, categorical, sparse
        As for :class:`~driftsurf.encoding.TableEncoder`.

    Attributes
    ----------
    encoder_
        The encoder behind it, with its exact state.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> table = {"size": [1.0, None, 3.0, 4.0], "city": ["Oslo", "Rome", "Oslo", "Rome"]}
    >>> model = make_pipeline(TableTransformer(), LogisticRegression())
    >>> model.fit(table, [0, 1, 0, 1]).predict({"size": [2.0], "city": ["Rome"]})
    array([1])
    """

    encoder_: TableEncoder

    def __init__(
        self,
        *,
        max_categories: int = 32,
        n_hashes: int = 256,
        categorical: Collection[str] = (),
        sparse: bool | Literal["auto"] = "auto",
    ) -> None:
        self.max_categories = max_categories
        self.n_hashes = n_hashes
        self.categorical = categorical
        self.sparse = sparse

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fix the layout by these rows."""
        return self._publish(TableEncoder(**self.get_params()).fit(X))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Fit on the first call; later ones check the columns and change nothing."""
        if not hasattr(self, "encoder_"):
            return self.fit(X)
        self.encoder_.partial_fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """Rows of numbers, dense or CSR as the first batch decided."""
        check_is_fitted(self)
        return self.encoder_.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """What the columns of the encoded rows are called."""
        check_is_fitted(self)
        return np.array(self.encoder_.feature_names(), dtype=object)

    def _publish(self, encoder: TableEncoder) -> Self:
        self.encoder_ = encoder
        names = [part.name for part in encoder.layout.parts]
        self.n_features_in_ = len(names) + encoder.layout.n_features
        if not encoder.layout.n_features:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
