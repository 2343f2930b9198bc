"""Back-testing: indicators, signals and portfolios simulated by compiled loops that take functions as arguments."""

import numpy as np
import pandas as pd
import vectorbt as vbt
from _digest import show

rng = np.random.RandomState(0)
price = pd.Series(100 + rng.normal(size=250).cumsum(), index=pd.date_range("2024-01-01", periods=250), name="price")
fast, slow = vbt.MA.run(price, 5), vbt.MA.run(price, 20)
show("average", slow.ma.to_numpy())
entries, exits = fast.ma_crossed_above(slow), fast.ma_crossed_below(slow)
portfolio = vbt.Portfolio.from_signals(price, entries, exits, init_cash=1000.0, fees=0.001)
show("value", portfolio.value().to_numpy())
show("drawdown", portfolio.drawdown().to_numpy())
show("trades", portfolio.trades.records.pnl.to_numpy())
show("rsi", vbt.RSI.run(price, 14).rsi.to_numpy())
