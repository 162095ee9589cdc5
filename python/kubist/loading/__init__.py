"""Random batches of tables, for training: `kubist.Loader`.

`_order` divides an epoch into groups of rows; `_read` reads a group into arrays; `_regions`
predicts the variance of batches from regions of space; `_state` is the position in an order;
`_loader` combines them.
"""

from ._loader import Loader

__all__ = ["Loader"]
