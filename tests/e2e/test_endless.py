"""Runs that never end: they neither keep other models from running, nor go on for ever."""
import small_models
from grpc_support import GrpcCase
from support import wait_for
from tensorflow_serving.apis import predict_pb2


class Endless(GrpcCase):
    def serve_endless(self, *flags):
        """Serves the models "endless" and "half_plus_two" with one worker and without a warm-up."""
        small_models.write_endless(self.path("models/endless/1"))
        self.put("models/half_plus_two/1")
        return self.serve(f"--models={self.path('models')}", "--num_workers=1", "--inline_max_us=0",
                          "--enable_model_warmup=false", *flags)

    def begin(self, server, timeout=None):
        """Begins an endless call and returns its future."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "endless"
        request.inputs["x"].dtype = 1
        request.inputs["x"].tensor_shape.SetInParent()
        request.inputs["x"].float_val.append(1)
        call = self.client(server).prediction.Predict.future(request, timeout=timeout)
        self.addCleanup(call.cancel)
        wait_for(lambda: server.metric("slipway_jobs") > 0, "the run")
        return call

    def test_another_model_runs_beside_one_that_holds_all_workers(self):
        server = self.serve_endless()
        call = self.begin(server)
        for i in range(3):
            self.assertEqual(server.predict("half_plus_two", [float(i)]), [i / 2 + 2])
        self.assertFalse(call.done())
