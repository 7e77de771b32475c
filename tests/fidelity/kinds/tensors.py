"""PyTorch: tensors and the storage they share, modules, and optimisers that hold a module's parameters."""

from tests.fidelity.kinds.kind import Kind

TENSORS = (
    Kind(
        "tensors of many types",
        """
        import torch

        tensors = {
            "f32": torch.arange(6.0).reshape(2, 3),
            "bf16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
            "f16": torch.tensor([0.5], dtype=torch.float16),
            "bool": torch.tensor([True, False]),
            "c64": torch.tensor([1 + 2j]),
            "u8": torch.tensor([255], dtype=torch.uint8),
            "scalar": torch.tensor(3),
            "empty": torch.empty(0, 4),
        }
        """,
        """
        assert torch.equal(tensors["f32"], torch.arange(6.0).reshape(2, 3))
        assert tensors["bf16"].dtype is torch.bfloat16 and tensors["bf16"].tolist() == [1.5, -2.0]
        assert tensors["f16"].dtype is torch.float16 and tensors["bool"].tolist() == [True, False]
        assert tensors["c64"].tolist() == [1 + 2j] and tensors["u8"].item() == 255
        assert tensors["scalar"].shape == () and tensors["empty"].shape == (0, 4)
        tensors["f32"].add_(1)
        assert tensors["f32"][0, 0] == 1
        """,
        needs=("torch",),
    ),
    Kind(
        "layers whose size comes with the first data",
        """
        import torch

        model = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())
        weight = model[0].weight
        """,
        """
        assert model[0].weight is weight and type(weight) is torch.nn.UninitializedParameter
        assert type(model[1].running_mean) is torch.nn.parameter.UninitializedBuffer
        assert model(torch.ones(4, 2)).shape == (4, 3)
        assert model[0].weight is weight and weight.shape == (3, 2) and type(model[0]) is torch.nn.Linear
        """,
        needs=("torch",),
    ),
    Kind(
        "tensors that share one storage",
        """
        import torch

        base = torch.arange(10.0)
        part = base[2:5]
        turned = base.view(2, 5).T
        """,
        """
        assert part.data_ptr() == base.data_ptr() + 8
        part[0] = 99
        assert base[2] == 99 and turned[2, 0] == 99 and turned.stride() == (1, 5)
        """,
        needs=("torch",),
    ),
    Kind(
        "two tensors of a storage without a name",
        """
        import torch

        left, right = torch.arange(1000.0)[10:20], None
        right = left[5:]
        """,
        """
        left[5] = -1
        assert right[0] == -1 and left.tolist()[:2] == [10.0, 11.0]
        """,
        needs=("torch",),
    ),
    Kind(
        "a tensor and its numpy array",
        """
        import torch

        tensor = torch.zeros(4)
        array = tensor.numpy()
        """,
        """
        array[1] = 7
        assert tensor[1] == 7
        tensor[2] = 8
        assert array[2] == 8
        """,
        needs=("torch",),
    ),
    Kind(
        "parameters, gradients and leaves",
        """
        import torch

        weight = torch.nn.Parameter(torch.ones(3))
        (weight * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        tracked = torch.ones(2, requires_grad=True)
        """,
        """
        assert type(weight) is torch.nn.Parameter and weight.requires_grad and weight.is_leaf
        assert weight.grad.tolist() == [1, 2, 3] and tracked.requires_grad and tracked.grad is None
        """,
        needs=("torch",),
    ),
    Kind(
        "a result that keeps its gradient",
        """
        import torch

        weight = torch.ones(2, requires_grad=True)
        result = weight * 2
        result.retain_grad()
        loss = result.square().sum()
        loss.backward()
        """,
        """
        assert weight.grad.tolist() == [8, 8] and result.tolist() == [2, 2] and result.grad.tolist() == [4, 4]
        """,
        needs=("torch",),
    ),
    Kind(
        "a network and its optimiser share parameters",
        """
        import torch

        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        inputs = torch.randn(16, 4)
        net(inputs).square().mean().backward()
        optimizer.step()
        schedule.step()
        before = net(inputs).detach()
        """,
        """
        assert optimizer.param_groups[0]["params"][0] is net[0].weight and schedule.optimizer is optimizer
        assert torch.allclose(net(inputs), before) or net.training
        assert net[0].weight.grad is not None and len(optimizer.state) == 6
        old = net[0].weight.detach().clone()
        optimizer.step()
        assert not torch.equal(old, net[0].weight)
        """,
        needs=("torch",),
    ),
    Kind(
        "a module that a cell defines, with tied weights and a buffer",
        """
        import torch
        from torch import nn


        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(10, 4)
                self.out = nn.Linear(4, 10, bias=False)
                self.out.weight = self.embed.weight
                self.register_buffer("steps", torch.zeros(1))

            def forward(self, ids):
                self.steps += 1
                return self.out(self.embed(ids))


        model = Tied()
        state = model.state_dict()
        """,
        """
        assert type(model) is Tied and model.out.weight is model.embed.weight
        assert model(torch.tensor([1, 2])).shape == (2, 10) and model.steps.item() == 1
        model.embed.weight.data[0, 0] = 42
        assert state["embed.weight"][0, 0] == 42
        """,
        needs=("torch",),
    ),
    Kind(
        "random generators, data sets and types of torch",
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        generator = torch.Generator().manual_seed(3)
        torch.rand(2, generator=generator)
        dataset = TensorDataset(torch.arange(6.0), torch.arange(6))
        loader = DataLoader(dataset, batch_size=4)
        dtype, device, size = torch.bfloat16, torch.device("cpu"), torch.Size([2, 3])
        """,
        """
        same = torch.Generator().manual_seed(3)
        torch.rand(2, generator=same)
        assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=same))
        assert loader.dataset is dataset and [len(batch[0]) for batch in loader] == [4, 2]
        assert dtype is torch.bfloat16 and device == torch.device("cpu") and type(size) is torch.Size
        """,
        needs=("torch",),
    ),
)
