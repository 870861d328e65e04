"""Transactional messages: sent as halves, delivered when their producer commits them.

`shapes` the forms in the log · `halves` the ledger · `reading` queues to ledger · `desk` every append ·
`ending` what producers decide · `checking` questions to producers · `metrics` a file of counts ·
`feature` the hooks
"""

from roquet.broker.features.transaction.checking import CheckRules
from roquet.broker.features.transaction.feature import Rules, Transaction

__all__ = ["CheckRules", "Rules", "Transaction"]
