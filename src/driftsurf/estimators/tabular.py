"""The table encoder as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.frames import TableLike
from driftsurf.data.encoding import TableEncoder
from driftsurf.estimators._sklearn import BaseEstimator, TransformerMixin, check_is_fitted


class TableTransformer(TransformerMixin, BaseEstimator):
    """Encodes frames of mixed columns as rows of numbers, in a scikit-learn pipeline.

    Numbers, text, dates, booleans and missing cells are encoded by :class:`~driftsurf.data.encoding.TableEncoder`.

    Parameters
    ----------
    max_categories, n_hashes, categorical, sparse
        As for :class:`~driftsurf.data.encoding.TableEncoder`.

    Attributes
    ----------
    encoder_
        The fitted encoder, which can be saved.
    n_features_in_, feature_names_in_
        Number and names of the columns of the first batch.

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
    n_features_in_: int
    feature_names_in_: npt.NDArray[Any]

    def __init__(
        self,
        *,
        max_categories: int = 128,
        n_hashes: int = 256,
        categorical: Collection[str] = (),
        sparse: bool | Literal["auto"] = "auto",
    ) -> None:
        self.max_categories = max_categories
        self.n_hashes = n_hashes
        self.categorical = categorical
        self.sparse = sparse

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Choose the encoding of each column by these rows; ``y`` is ignored."""
        return self._publish(TableEncoder(**self.get_params()).fit(X))

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        """Fit in the first call; later calls check the columns and change nothing. ``y`` is ignored."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        self.encoder_.partial_fit(X)
        return self

    def transform(self, X: TableLike) -> Any:
        """Return rows of numbers: an array, or a CSR matrix if the first batch was better encoded as one."""
        check_is_fitted(self)
        return self.encoder_.transform(X)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the encoded columns."""
        check_is_fitted(self)
        return np.array(self.encoder_.feature_names(), dtype=object)

    def _publish(self, encoder: TableEncoder) -> Self:
        self.encoder_ = encoder
        names = [part.name for part in encoder.layout.columns]
        self.n_features_in_ = len(names) + encoder.layout.n_features
        if not encoder.layout.n_features:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "encoder_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
